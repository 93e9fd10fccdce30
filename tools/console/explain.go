package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/explain"
)

// explainTimeout bounds the search of a change in presence.transitions.
const explainTimeout = 20 * time.Second

// explanation is the answer to GET explain.
type explanation struct {
	// Text is what "stillhere explain" prints.
	Text    string `json:"text"`
	EventID string `json:"event_id"`
	shownUser
	From     string         `json:"from"`
	To       string         `json:"to"`
	At       schemas.Millis `json:"at"`
	Cause    string         `json:"cause"`
	Record   recordShown    `json:"record"`
	Rule     explain.Rule   `json:"rule"`
	PolicyID string         `json:"policy_id"`
	// Timeline is how the instant came about, oldest first.
	Timeline   []moment    `json:"timeline"`
	Neighbours []neighbour `json:"neighbours"`
}

// recordShown is the record of presence.heartbeats at which the change came about.
type recordShown struct {
	Topic     string         `json:"topic"`
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
	At        schemas.Millis `json:"at"`
	Kind      *string        `json:"kind"`
	Gone      *string        `json:"gone"` // why it cannot be read
}

// moment is an instant, or a time, on the way to a change.
type moment struct {
	At schemas.Millis `json:"at"`
	// Kind is beat, bye, touch, ttl, debounce, grace, rest, record or change.
	Kind  string         `json:"kind"`
	Label string         `json:"label"`
	Until schemas.Millis `json:"until,omitzero"`
}

// neighbour is a change of the same user before or after.
type neighbour struct {
	EventID string         `json:"event_id"`
	From    string         `json:"from"`
	To      string         `json:"to"`
	At      schemas.Millis `json:"at"`
	Cause   string         `json:"cause"`
	Version string         `json:"version"`
}

func notFound(reason string) error {
	return web.Refuse(http.StatusNotFound, "not_found", "", reason)
}

// absent is the answer about changes that are not in the log, which is the reason, and about those that
// the audience may not see, without a reason. Both look alike to who may not see everything: else the
// answer would tell that another tenant's change exists, and how many all tenants have.
func (a audience) absent(reason error) error {
	if reason != nil && a.admin && !a.bound {
		return notFound(reason.Error())
	}
	return notFound("there is no such change in the log: retention may have taken it, and changes of erased users are left out")
}

// getExplanation answers GET explain.
func (s *Server) getExplanation(ctx context.Context, r *http.Request) (any, error) {
	values, err := parameters(r, "event_id", "user_id", "version")
	if err != nil {
		return nil, err
	}
	a, err := s.audienceOf(r)
	if err != nil {
		return nil, err
	}
	config := s.Current()
	o := explain.Options{Event: values["event_id"], Settings: config.Policy, Prefix: config.Kafka.Prefix}
	var tenants []policy.SetPolicy
	if s.Cluster.Users.Text() {
		o.Names = s.Store
		if tenants, err = policy.OfTenants(ctx, s.reader); err != nil {
			return nil, err
		}
		for _, p := range tenants {
			o.Tenants = append(o.Tenants, p.TenantPolicy)
		}
	}
	if text, given := values["user_id"]; given {
		if o.User, o.Called, err = s.Cluster.Users.User("user_id", a.tenant, text); err != nil {
			return nil, err
		}
	}
	switch version, given := values["version"]; {
	case o.Event != "" && given:
		return nil, schemas.Invalid("version", "is not needed beside event_id")
	case o.Event == "" && o.User == 0:
		return nil, schemas.Invalid("event_id", "must be given, or user_id with or without version")
	case o.Event == "":
		if o.Event, err = s.eventOf(ctx, o.User, version); err != nil {
			return nil, err
		}
	}
	if o.Checkpoints, err = policy.Checkpoints(ctx, s.Cluster); err != nil {
		return nil, err
	}
	known, err := policy.ReadKnown(ctx, s.reader, o.Checkpoints, tenants)
	if err != nil {
		return nil, err
	}
	o.Known = known.Policies()
	found, err := explain.Explain(ctx, s.reader, o)
	var bad *schemas.FieldError
	switch {
	case errors.As(err, &bad):
		bad.Field = "event_id"
		return nil, bad
	case err != nil && (ctx.Err() != nil || kafka.IsUnauthorized(err)):
		return nil, err
	case err != nil:
		return nil, a.absent(err)
	case !a.sees(found.Change), o.Called.Text != "" && (found.Change.Name == nil || *found.Change.Name != o.Called.Text):
		return nil, a.absent(nil)
	}
	unseen := func(c explain.Change) bool { return !a.sees(c) }
	found.Before, found.After = slices.DeleteFunc(found.Before, unseen), slices.DeleteFunc(found.After, unseen)
	return s.explanationOf(found, o), nil
}

// sees reports whether the audience may see a change.
func (a audience) sees(c explain.Change) bool {
	var name schemas.Name
	if c.Name != nil {
		name = schemas.Name{Tenant: *c.Tenant, Text: *c.Name}
	}
	return a.has(name) && (a.admin || c.Visibility != schemas.VisibilityWord(schemas.Nobody))
}

// eventOf finds the id of a change of a user by its version; without one that of the newest.
func (s *Server) eventOf(ctx context.Context, user schemas.UserID, version string) (string, error) {
	const most = 20 // pages
	q := store.HistoryQuery{User: user, Limit: 1000}
	if version == "" {
		q.Limit = 1
	}
	for range most {
		page, err := s.Store.History(ctx, q)
		if err != nil {
			return "", err
		}
		for _, t := range page.Changes {
			if version == "" || t.Version.String() == version {
				return t.EventID().String(), nil
			}
		}
		if q.After = page.Next; q.After == (store.Cursor{}) {
			break
		}
	}
	return "", notFound("the log of changes has no such change of this user")
}

func (s *Server) explanationOf(e *explain.Explanation, o explain.Options) explanation {
	var text strings.Builder
	_ = e.Write(&text) // into memory
	c := e.Change
	x := explanation{Text: text.String(), EventID: e.Event, From: c.From, To: c.To, At: c.At, Cause: c.Cause, Rule: e.Rule,
		PolicyID: e.Policy.ID, Timeline: timelineOf(e), Neighbours: []neighbour{},
		Record: recordShown{Topic: e.Place.Topic, Partition: e.Place.Partition, Offset: e.Place.Offset}}
	if c.Name != nil {
		x.shownUser = s.shown(0, schemas.Name{Tenant: *c.Tenant, Text: *c.Name})
	} else if !s.Cluster.Users.Text() {
		x.shownUser = s.shown(c.User, o.Called)
	}
	if e.Heartbeat != nil {
		x.Record.At, x.Record.Kind = e.Heartbeat.Time, &e.Heartbeat.Kind
	} else {
		x.Record.Gone = &e.Gone
	}
	for _, n := range slices.Concat(e.Before, e.After) {
		x.Neighbours = append(x.Neighbours, neighbour{n.Event, n.From, n.To, n.At, n.Cause, n.Version})
	}
	return x
}

// kindsOfTerms are what the parts of a sum look like on a time axis.
var kindsOfTerms = map[string]string{
	"last beat": "beat", "bye": "bye", "last touch": "touch",
	"online_ttl": "ttl", "away_ttl": "ttl", "idle_after": "ttl",
	"offline_debounce": "debounce", "bye_debounce": "debounce", "reconnect_window": "grace",
}

// timelineOf is how the instant of a change came about.
func timelineOf(e *explain.Explanation) []moment {
	var all []moment
	at := schemas.Millis(0)
	span := func(kind, label, length string) {
		d, err := time.ParseDuration(length)
		if err != nil || d == 0 {
			return
		}
		until := at + schemas.Millis(d.Milliseconds())
		all = append(all, moment{min(at, until), kind, label + " " + length, max(at, until)})
		at = until
	}
	for i, term := range e.Rule.Sum {
		if i == 0 {
			at = term.At
			all = append(all, moment{At: at, Kind: kindsOfTerms[term.Name], Label: term.Name})
			continue
		}
		span(cmp.Or(kindsOfTerms[term.Name], "ttl"), term.Name, term.Add)
	}
	if len(e.Rule.Sum) > 0 {
		span("rest", "rest", e.Rule.Rest)
	}
	if e.Heartbeat != nil {
		all = append(all, moment{At: e.Heartbeat.Time, Kind: "record", Label: e.Heartbeat.Kind})
		for _, row := range e.Heartbeat.Rows {
			m := moment{At: row.At, Kind: "beat", Label: fmt.Sprintf("beat of device %d (%s)", row.Device, row.Kind)}
			if row.Bye {
				m.Kind, m.Label = "bye", fmt.Sprintf("bye of device %d (%s)", row.Device, row.Kind)
			}
			all = append(all, m)
		}
	}
	for _, c := range append(slices.Clone(e.Before[max(0, len(e.Before)-3):]), e.Change) {
		all = append(all, moment{At: c.At, Kind: "change", Label: c.From + " → " + c.To + " (" + c.Cause + ")"})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.At, b.At) })
	return all
}

// getWatchers answers GET users/{user_id}/watchers.
func (s *Server) getWatchers(_ context.Context, r *http.Request) (any, error) {
	if _, err := parameters(r); err != nil {
		return nil, err
	}
	a, err := s.audienceOf(r)
	if err != nil {
		return nil, err
	}
	user, _, err := s.Cluster.Users.User("user_id", a.tenant, r.PathValue("user_id"))
	if err != nil {
		return nil, err
	}
	answer := struct {
		Count int    `json:"count"`
		Scope string `json:"scope"`
	}{s.Watchers(user), "this process"}
	if s.mode == "dev" {
		answer.Scope = "all processes" // there is no other
	}
	return answer, nil
}
