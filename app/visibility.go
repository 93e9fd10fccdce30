package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// The rules of Config.MayWatch.
const (
	WatchEveryone  = "everyone"
	WatchFollowers = "followers"
)

// The rules of Config.MayReadHistory.
const (
	HistorySelf     = "self"
	HistoryWatchers = "watchers"
)

// validateAccess checks the values of Config.MayWatch and Config.MayReadHistory.
func validateAccess(watch, history string) error {
	var all faults.List
	all.If(!slices.Contains([]string{"", WatchEveryone, WatchFollowers}, watch),
		"may_watch: must be %s or %s, is %q", WatchEveryone, WatchFollowers, watch)
	all.If(!slices.Contains([]string{"", HistorySelf, HistoryWatchers}, history),
		"may_read_history: must be %s or %s, is %q", HistorySelf, HistoryWatchers, history)
	return all.Err()
}

// viewerOf is who opens a stream: whom the token names or, where there is no
// authentication, whom ?user_id= names, as for a socket that beats.
func viewerOf(r *http.Request, users identity.Users) schemas.UserID {
	user, _ := namedViewer(r, users)
	return user
}

// viewerName is what viewerOf is called, with --ids text; the zero value if unknown.
func viewerName(r *http.Request, users identity.Users) schemas.Name {
	_, name := namedViewer(r, users)
	return name
}

func namedViewer(r *http.Request, users identity.Users) (schemas.UserID, schemas.Name) {
	if caller := ingest.CallerOf(r.Context()); caller != nil {
		return caller.User, caller.Name
	}
	if !strings.Contains(r.URL.RawQuery, "user_id=") && !strings.Contains(r.URL.RawQuery, "%") {
		return 0, schemas.Name{} // spares parsing a long list of ids
	}
	tenant, err := ingest.TenantOf(r, users)
	if err != nil {
		return 0, schemas.Name{}
	}
	user, name, err := users.User("user_id", tenant, r.URL.Query().Get("user_id"))
	if err != nil {
		return 0, schemas.Name{}
	}
	return user, name
}

// decision is the one answer to who may see whom: batch, one user, history, stream and
// deliveries ask it. What it says of a user depends on the graph and the token alone, so
// it does not reveal whether the user is online, hidden or exists.
type decision struct {
	follows follows // nil: every user may see every other
	history string  // one of the rules of Config.MayReadHistory
	users   identity.Users
}

// follows is what is asked of the graph.
type follows interface {
	Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error)
	Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error)
}

// forbidden returns those of users that viewer may not see. Viewer 0 is unknown and may see nobody.
func (d *decision) forbidden(ctx context.Context, viewer schemas.UserID, users []schemas.UserID) ([]schemas.UserID, error) {
	if d.follows == nil || len(users) == 0 {
		return nil, nil
	}
	known := make([]bool, len(users))
	if viewer != 0 {
		var err error
		if known, err = d.follows.Follows(ctx, viewer, users); err != nil {
			return nil, fmt.Errorf("deciding who may watch: %w", err)
		}
	}
	return unknown(users, known, viewer), nil
}

// unknown are those of users who are neither known nor the one who always is.
func unknown(users []schemas.UserID, known []bool, always schemas.UserID) (rest []schemas.UserID) {
	for i, user := range users {
		if !known[i] && user != always {
			rest = append(rest, user)
		}
	}
	return rest
}

// mayReceive returns those of recipients that may not see user.
func (d *decision) mayReceive(ctx context.Context, user schemas.UserID, recipients []schemas.UserID) ([]schemas.UserID, error) {
	known, err := d.follows.Followers(ctx, user, recipients)
	if err != nil {
		return nil, fmt.Errorf("deciding who may receive deliveries: %w", err)
	}
	return unknown(recipients, known, user), nil
}

// mayWatch is the decision in the stream's words.
func (d *decision) mayWatch(ctx context.Context, viewer schemas.UserID, users []schemas.UserID) error {
	refused, err := d.forbidden(ctx, viewer, users)
	if err == nil && len(refused) > 0 {
		err = &live.NotAllowed{Users: refused}
	}
	return err
}

// Refused is the decision in the words of the reads; see query.Access.
func (d *decision) Refused(r *http.Request, users []schemas.UserID) ([]schemas.UserID, error) {
	if isAdmin(r) {
		return nil, nil
	}
	return d.forbidden(r.Context(), viewerOf(r, d.users), users)
}

// MayReadHistory is the decision about the log of a user's changes; see query.Access.
func (d *decision) MayReadHistory(r *http.Request, user schemas.UserID) (bool, error) {
	if d.history != HistoryWatchers {
		return isAdmin(r) || viewerOf(r, d.users) == user, nil
	}
	refused, err := d.Refused(r, []schemas.UserID{user})
	return len(refused) == 0, err
}

// isAdmin reports whether the token is an administrator's.
func isAdmin(r *http.Request) bool {
	caller := ingest.CallerOf(r.Context())
	return caller != nil && caller.Any
}
