package virtual

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/internal/watch"
)

// namesakes are what users of two tenants are called.
var namesakes = []string{"6f9619ff-8b86-d011-b42d-00c04fc964ff", "ann, née O'Neil/7", "batch", "42"}

// named asks about users by name. tenant may be empty.
type named struct {
	*world
	ingest, api, tenant string
}

func (n named) query() string { return "?tenant=" + n.tenant }

func (n named) beat(bye bool) {
	n.Helper()
	var beats []any
	for _, name := range namesakes {
		beats = append(beats, map[string]any{"user_id": name, "device_id": "phone", "bye": bye})
	}
	if status, answer := n.ask(http.MethodPost, n.ingest+"/presence/heartbeats"+n.query(), map[string]any{"beats": beats}); status != http.StatusAccepted {
		n.Errorf("beats of tenant %q are answered %d %s", n.tenant, status, answer)
	}
}

// read asks one endpoint of a user.
func (n named) read(name, rest string) string {
	n.Helper()
	status, answer := n.ask(http.MethodGet, n.api+"/presence/users/"+url.PathEscape(name)+rest+n.query(), nil)
	if status != http.StatusOK {
		n.Errorf("%s%s of tenant %q is answered %d %s", name, rest, n.tenant, status, answer)
	}
	return string(answer)
}

// are checks what batch and single reads say of all users.
func (n named) are(state string) {
	n.Helper()
	query := n.query()
	for _, name := range namesakes {
		query += "&user_ids=" + url.QueryEscape(name)
	}
	status, answer := n.ask(http.MethodGet, n.api+"/presence/batch"+query, nil)
	if got := strings.Count(string(answer), state); status != http.StatusOK || got != len(namesakes) {
		n.Errorf("a batch of tenant %q is answered %d %s, want %s for each", n.tenant, status, answer, state)
	}
	for _, name := range namesakes {
		if one := n.read(name, ""); !strings.Contains(one, `"state":`+state) || !strings.Contains(one, fmt.Sprintf(`"user_id":%q`, name)) {
			n.Errorf("%q of tenant %q is %s, want %s", name, n.tenant, one, state)
		}
	}
}

// counts checks how many users of the tenant are present.
func (n named) counts(want string) {
	n.Helper()
	n.until("counts of tenant "+n.tenant, 10*time.Second, func() bool {
		status, answer := n.ask(http.MethodGet, n.api+"/presence/count"+n.query(), nil)
		return status == http.StatusOK && strings.HasPrefix(string(answer), want) && strings.Contains(string(answer), `"missing_partitions":[]`)
	})
}

func TestUsersAreSeenByTheirNamesWithinTheirTenantAlone(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		openGraph(w)
		w.config.Expand.Mode = expand.All
		all := w.startAll()
		acme := named{w, all["ingest"].base, all["api"].base, "acme"}
		own := named{w, all["ingest"].base, all["api"].base, ""}

		v := w.listen(watch.Options{URL: all["api"].base + "/presence/stream", Tenant: "acme", Users: namesakes})
		w.until("a snapshot", 10*time.Second, func() bool { return len(v.messages(watch.Snapshot)) > 0 })

		friend := own.api + "/presence/users/" + url.PathEscape(namesakes[1]) + "/followers/" + url.PathEscape(namesakes[0])
		if status, answer := w.ask(http.MethodPut, friend+"?tenant=acme", nil); status != http.StatusNoContent {
			w.Errorf("a follower is answered %d %s", status, answer)
		}
		notices := w.logChannel(false)

		own.beat(false)
		time.Sleep(2 * time.Second)
		own.are(`"online"`)
		acme.are(`"offline"`)
		if n := len(v.changes()); n != 0 {
			w.Errorf("a viewer of tenant acme received %d changes of another tenant", n)
		}
		acme.beat(false)
		time.Sleep(2 * time.Second)
		own.beat(true)
		time.Sleep(2 * time.Second)
		own.are(`"offline"`)
		acme.are(`"online"`)
		own.counts(`{"online":0,"away":0,`)
		acme.counts(fmt.Sprintf(`{"online":%d,"away":0,`, len(namesakes)))
		if n := len(v.changes()); n != len(namesakes) {
			w.Errorf("a viewer of %d users who came received %d changes", len(namesakes), n)
		}

		// A detector that starts again knows the names from the status.
		all["detector"].stop()
		w.start("detector", "detector")
		time.Sleep(5 * time.Second)
		acme.counts(fmt.Sprintf(`{"online":%d,"away":0,`, len(namesakes)))
		time.Sleep(10 * time.Minute)
		acme.counts(`{"online":0,"away":0,`)
		acme.are(`"offline"`)
		for _, c := range v.changes()[len(namesakes):] {
			if c.Tenant != "acme" || !slices.Contains(namesakes, c.UserID) {
				w.Errorf("after a restart of the detector a change is of %q of tenant %q", c.UserID, c.Tenant)
			}
		}
		for _, name := range namesakes {
			if history := acme.read(name, "/history"); strings.Count(history, `"cause":"first_beat"`) != 1 {
				w.Errorf("the history of %q is %s", name, history)
			}
		}
		notices.stop()
		if text := notices.out.String(); strings.Count(text, fmt.Sprintf("%q", namesakes[0])) == 0 || strings.Count(text, `"tenant":"acme"`) != strings.Count(text, "\n") {
			w.Errorf("the follower's deliveries are %s", text)
		}
	})
}
