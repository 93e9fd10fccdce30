package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// edges are who follows whom: follower, then user.
type edges map[[2]schemas.UserID]bool

func (e edges) Followers(_ context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error) {
	if e == nil {
		return nil, errors.New("the store is away")
	}
	follow := make([]bool, len(followers))
	for i, f := range followers {
		follow[i] = e[[2]schemas.UserID{f, user}]
	}
	return follow, nil
}

func (e edges) Follows(_ context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error) {
	if e == nil {
		return nil, errors.New("the store is away")
	}
	follows := make([]bool, len(users))
	for i, u := range users {
		follows[i] = e[[2]schemas.UserID{follower, u}]
	}
	return follows, nil
}

func TestOnlyFollowersAndTheUserMayWatchAUser(t *testing.T) {
	t.Parallel()
	only := &decision{follows: edges{{7, 1}: true, {7, 2}: true}}
	rule := only.mayWatch
	for viewer, refused := range map[schemas.UserID][]schemas.UserID{7: {3}, 1: {2, 3, 7}, 0: {1, 2, 3, 7}} {
		err := rule(t.Context(), viewer, []schemas.UserID{1, 2, 3, 7})
		var not *live.NotAllowed
		if !errors.As(err, &not) || !slices.Equal(not.Users, refused) {
			t.Errorf("%d: %v", viewer, err)
		}
	}
	if err := rule(t.Context(), 7, []schemas.UserID{2, 1}); err != nil {
		t.Error(err)
	}
	if refused, err := only.mayReceive(t.Context(), 1, []schemas.UserID{1, 2, 7}); err != nil || !slices.Equal(refused, []schemas.UserID{2}) {
		t.Errorf("not told of 1: %v, %v", refused, err)
	}
	var not *live.NotAllowed
	if err := (&decision{follows: edges(nil)}).mayWatch(t.Context(), 7, []schemas.UserID{1}); err == nil || errors.As(err, &not) {
		t.Errorf("without the graph it is decided: %v", err)
	}
}

func TestWhoWatchesIsWhomTheTokenNamesWhateverTheAddressSays(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/presence/stream?user_id=5", nil)
	if who := viewerOf(r, identity.Users{}); who != 5 {
		t.Errorf("without authentication: %d", who)
	}
	r = r.WithContext(ingest.WithCaller(t.Context(), &ingest.Caller{User: 7}))
	if who := viewerOf(r, identity.Users{}); who != 7 {
		t.Errorf("with a token of 7: %d", who)
	}
	if who := viewerOf(httptest.NewRequest(http.MethodGet, "/presence/stream?user_id=x", nil), identity.Users{}); who != 0 {
		t.Errorf("of nobody: %d", who)
	}
	people := identity.Named(identity.Key{1})
	for address, want := range map[string]schemas.UserID{"user_id=7": people.ID("", "7"), "user_id=ann&tenant=acme": people.ID("acme", "ann")} {
		if who := viewerOf(httptest.NewRequest(http.MethodGet, "/presence/stream?"+address, nil), people); who != want {
			t.Errorf("%s is %d, want %d", address, who, want)
		}
	}
}
