package assembly

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/schemas"
)

// The rules of Config.MayWatch.
const (
	WatchEveryone  = "everyone"
	WatchFollowers = "followers"
)

// viewerOf is who opens a stream: whom the token names or, where there is no
// authentication, whom ?user_id= names, as for a socket that beats.
func viewerOf(r *http.Request) schemas.UserID {
	if caller := ingest.CallerOf(r.Context()); caller != nil {
		return caller.User
	}
	user, err := schemas.ParseUserID("user_id", r.URL.Query().Get("user_id"))
	if err != nil {
		return 0
	}
	return user
}

// mayWatch is the rule of who may watch whom; nil: everybody may.
func (h *house) mayWatch(ctx context.Context) (live.MayWatch, error) {
	if h.config.MayWatch != WatchFollowers {
		return nil, nil
	}
	store, err := h.followerGraph(ctx)
	if err != nil {
		return nil, err
	}
	return onlyFollowers(store), nil
}

// onlyFollowers lets users be watched by those who follow them and by themselves.
// What it says of a user depends on the graph alone, so it tells nothing of whether
// the user is there, hides or exists.
func onlyFollowers(store interface {
	Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error)
}) live.MayWatch {
	return func(ctx context.Context, viewer schemas.UserID, users []schemas.UserID) error {
		follows := make([]bool, len(users))
		if viewer != 0 {
			var err error
			if follows, err = store.Follows(ctx, viewer, users); err != nil {
				return fmt.Errorf("deciding who may watch: %w", err)
			}
		}
		refused := &live.NotAllowed{}
		for i, user := range users {
			if !follows[i] && user != viewer {
				refused.Users = append(refused.Users, user)
			}
		}
		if len(refused.Users) > 0 {
			return refused
		}
		return nil
	}
}

// followerGraph is the store of who follows whom.
func (h *house) followerGraph(ctx context.Context) (graph.Store, error) {
	if h.graph != nil {
		return h.graph, nil
	}
	store, err := OpenGraph(ctx, h.config.Graph, h.config.Postgres)
	if err != nil {
		return nil, err
	}
	h.graph = store
	h.closeLater("follower graph", func(context.Context) error { store.Close(); return nil })
	h.check("follower graph", store.Ping)
	h.watchTables("follower graph", store)
	return store, nil
}
