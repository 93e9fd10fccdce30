package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/explain"
)

// explainTimeout bounds the search of a change in presence.transitions.
const explainTimeout = 20 * time.Second

// explanation is the answer to GET explain: that of "stillhere explain", as JSON and as it is printed.
type explanation struct {
	*explain.Explanation
	Text string `json:"text"`
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
	values, err := parameters(r, "event_id")
	if err != nil {
		return nil, err
	}
	a, err := s.audienceOf(r)
	if err != nil {
		return nil, err
	}
	o := explain.Options{Event: values["event_id"]}
	if o.Event == "" {
		return nil, schemas.Invalid("event_id", "must be given")
	}
	if s.Cluster.Users.Text() {
		o.Names = s.Store
	}
	select { // an explanation needs the state of a partition in memory
	case s.explaining <- struct{}{}:
		defer func() { <-s.explaining }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, err := explain.Explain(ctx, s.Cluster, s.reader, o)
	var bad *schemas.FieldError
	switch {
	case errors.As(err, &bad):
		bad.Field = "event_id"
		return nil, bad
	case err != nil && (ctx.Err() != nil || kafka.IsUnauthorized(err)):
		return nil, err
	case err != nil:
		return nil, a.absent(err)
	case !a.sees(found.Change):
		return nil, a.absent(nil)
	}
	if !a.admin {
		if shows, err := s.showsTimes(ctx, found.Change); err != nil || !shows {
			return nil, cmp.Or(err, a.absent(nil))
		}
	}
	unseen := func(c explain.Change) bool { return !a.sees(c) }
	found.Before, found.After = slices.DeleteFunc(found.Before, unseen), slices.DeleteFunc(found.After, unseen)
	if r := found.Replay; r != nil && !a.admin && (r.Before.Hid || r.After.Hid) {
		r.Before, r.After = nil, nil
	}
	var text strings.Builder
	_ = found.Write(&text) // into memory
	return explanation{found, text.String()}, nil
}

// showsTimes reports whether others learn when the user of a change was last here: not of one who has no name.
func (s *Server) showsTimes(ctx context.Context, c explain.Change) (bool, error) {
	id, tenant := c.User, ""
	if c.Name != nil {
		user, name, err := s.Cluster.Users.User("user_id", *c.Tenant, *c.Name)
		if err != nil {
			return false, err
		}
		id, tenant = user, name.Tenant
	}
	stored, err := s.Store.Users(ctx, []schemas.UserID{id})
	return id != 0 && stored[id].Override.LastSeen <= schemas.SeenByPolicy && !s.coarse(tenant), err
}

// sees reports whether the audience may see a change.
func (a audience) sees(c explain.Change) bool {
	var name schemas.Name
	if c.Name != nil {
		name = schemas.Name{Tenant: *c.Tenant, Text: *c.Name}
	}
	return a.has(name) && (a.admin || c.Visibility != schemas.VisibilityWord(schemas.Nobody))
}
