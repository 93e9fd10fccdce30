package httpgate

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Copies returns for how long each topic may still have a record that is written now.
type Copies func(ctx context.Context) (admin.Copies, error)

// Receipt is the answer to an erasure.
type Receipt struct {
	schemas.NamedUser
	// ErasedAt is when Kafka had the erasure. The stores follow within seconds.
	ErasedAt schemas.Millis `json:"erased_at"`
	// GoneOn is the first UTC day on which no topic has a copy. The stores then forget the pair of
	// user id and version too.
	GoneOn string `json:"last_copy_gone_on"`
	// Topics are the same days of each topic.
	Topics map[string]string `json:"topics"`
	// Note is on which condition these days hold; empty: none.
	Note string `json:"note,omitempty"`
}

// slack is how late the detector may notice that the status need not name the erasure any more.
const slack = time.Hour

// NewReceipt makes the receipt of an erasure at an instant, and the frame of the erasure. With --ids
// text the user has a name.
func NewReceipt(users identity.Users, user schemas.UserID, name schemas.Name, at time.Time, copies admin.Copies) (Receipt, []byte) {
	nextDay := func(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }
	of := func(topic schemas.Topic) time.Duration {
		for name, stays := range copies.Stay {
			if strings.HasSuffix(name, string(topic)) {
				return stays
			}
		}
		return 0
	}
	r := Receipt{NamedUser: users.Called(user, name).Shown(), ErasedAt: schemas.MillisOf(at), Topics: map[string]string{}, Note: copies.Note}
	// The status names the erasure at least for as long as deliveries stay, and is gone in time.
	status := of(schemas.Statuses) + slack
	last := nextDay(at.Add(of(schemas.Deliveries) + status))
	for name, stays := range copies.Stay {
		gone := nextDay(at.Add(stays))
		r.Topics[name] = gone.Format(time.DateOnly)
		if gone.After(last) {
			last = gone
		}
	}
	r.GoneOn = last.Format(time.DateOnly)
	for name := range copies.Stay {
		if strings.HasSuffix(name, string(schemas.Statuses)) {
			r.Topics[name] = r.GoneOn // the status names the erasure until then
		}
	}
	return r, schemas.AppendErasure(nil, user, name, schemas.MillisOf(last), schemas.MillisOf(last.Add(-status)), false)
}

// Erases lets users and administrators erase users. Call it before Routes.
func (g *Gate) Erases(copies Copies) { g.copies = copies }

// spread lets gateways know that Kafka has acknowledged the erasure of a user. If Kafka does not take the record, they
// write the name again within coalesce.NamedEvery: the erasure is done all the same. With --ids int there are no names.
// done is called once.
func (g *Gate) spread(user schemas.UserID, done func()) {
	if !g.cfg.Users.Text() {
		done()
		return
	}
	// The producer logs a missing right, and the metrics count other failures.
	g.writer.append("erasures", 0, schemas.ErasureRecords([]schemas.UserID{user})[0], func(error) { done() })
}

// deleteUser appends the erasure of a user in a frame of its own. The log orders it among the beats.
func (g *Gate) deleteUser(w http.ResponseWriter, r *http.Request) (status int, err error) {
	user, name, err := ingest.UserOf(r, g.cfg.Users)
	if err != nil {
		return 0, err
	}
	if err := ingest.CallerOf(r.Context()).CheckVisibilityOf("user_id", user); err != nil {
		return 0, err
	}
	leave, err := enter(g.visibilitySlots)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), g.cfg.AppendTimeout)
	defer cancel()
	copies, err := g.copies(ctx)
	if err != nil {
		return 0, web.Refuse(http.StatusServiceUnavailable, web.Unavailable, "",
			"the erasure has not begun, because no receipt can be given: "+err.Error())
	}
	if over := g.tenants.Of(name.Tenant).Change(tenants.Erasure, 1); over != nil {
		return 0, over
	}
	receipt, frame := NewReceipt(g.cfg.Users, user, name, time.Now(), copies)
	written, spread := make(chan error, 1), make(chan error, 1)
	g.writer.append("erasure", 0, schemas.Outgoing{
		Partition: schemas.PartitionOf(user, g.cfg.Partitions),
		Key:       user.Key(), Value: frame,
	}, func(err error) {
		if err == nil {
			g.spread(user, func() { spread <- nil })
		}
		written <- err
	})
	if err := g.await(r.Context(), written); err != nil {
		return 0, err
	}
	_ = g.await(r.Context(), spread) // so that whoever has the answer may beat with a name
	w.Header().Set("Content-Type", "application/json")
	// If this fails the caller has disconnected; Kafka has the erasure.
	_ = json.NewEncoder(w).Encode(receipt)
	return http.StatusOK, nil
}
