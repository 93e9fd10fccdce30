package query_test

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func now() schemas.Millis { return schemas.MillisOf(time.Now()) }

func mustURL(t *testing.T, path string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(path))(t)
	return u
}

// wantStale wants the user's state and since when it is stale, up to a minute.
func (w *world) wantStale(t *testing.T, user schemas.UserID, state string, since schemas.Millis) {
	t.Helper()
	users := must.Get(w.reader.Read(t.Context(), []schemas.UserID{user}, nil))(t)
	const minute = 60_000
	p := users[0]
	if *p.State != state || (since == 0) != (p.StaleSince == 0) || p.StaleSince < since-minute || p.StaleSince > since+minute {
		t.Errorf("user %d is %s, stale since %v; want %s, since %v", user, *p.State, p.StaleSince, state, since)
	}
}

// User 1 came online, user 2 was never seen.
func TestAnswersSaySinceWhenTheyAreStaleWhoeverKnowsTheUser(t *testing.T) {
	t.Parallel()
	stood := now() - 3_600_000
	for name, c := range map[string]struct {
		world          func(w *world)
		online, absent schemas.Millis // since when what is said of them is stale
	}{
		"the pipeline stands still": {func(w *world) { w.happen(t, arrives(1, 1, day)); w.upTo(t, stood) }, stood, stood},
		"the watermark is fresh":    {func(w *world) { w.happen(t, arrives(1, 1, day)); w.upTo(t, now()) }, 0, 0},
		"Redis is away":             {func(w *world) { w.durably(t, arrives(1, 1, day)); w.serve(awayView{}, w.durable) }, now(), now()},
		"the store is away": {func(w *world) {
			w.happen(t, arrives(1, 1, day))
			w.upTo(t, now())
			w.serve(w.view, away{})
		}, 0, now()}, // user 2 is known not to be here, but not since when
		"a rebuild has not met the user": {func(w *world) { w.durably(t, arrives(1, 1, day)); w.rebuilds(t) }, now(), now()},
		"Redis has evicted the user":     {func(w *world) { w.durably(t, arrives(1, 1, stood)); w.upTo(t, now()) }, now(), 0},
		"Redis has not the arrival yet":  {func(w *world) { w.durably(t, arrives(1, 1, now())); w.upTo(t, now()) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, redistest.Mini(t))
			c.world(w)
			w.wantStale(t, 1, "online", c.online)
			w.wantStale(t, 2, "offline", c.absent)
		})
	}
}

// rebuilds says that Redis is being rebuilt.
func (w *world) rebuilds(t *testing.T) {
	t.Helper()
	for p := range int32(partitions) {
		must.Get(w.view.Move(t.Context(), p, redisview.Progress{}, redisview.Progress{Epoch: 1, Rebuilding: true}))(t)
	}
}

func TestABatchSaysSinceWhenWhatItSaysOfSomeUserMayBeOutOfDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.happen(t, arrives(1, 1, day))
	ask := func() string {
		recorder := w.ask(t, http.MethodGet, "/presence/batch?user_ids=1,2,3,4,5", "")
		return recorder.Header().Get("Stale-Since")
	}
	stood := now() - 3_600_000
	w.upTo(t, stood)
	if said := ask(); said != stood.String() {
		t.Errorf("the pipeline stands since %v; a batch says %q", stood, said)
	}
	w = newWorld(t, redistest.Mini(t))
	w.upTo(t, now())
	if said := ask(); said != "" {
		t.Errorf("of fresh states a batch says %q", said)
	}
}

// mortal is a Redis whose watermarks are fresh until it dies.
type mortal struct {
	awayView
	dead atomic.Bool
}

func (m *mortal) ReadInto(context.Context, []schemas.UserID, []redisview.Entry) (redisview.ProgressMap, error) {
	if m.dead.Load() {
		return nil, errAway
	}
	all := redisview.ProgressMap{}
	for partition := range int32(partitions) {
		all[partition] = redisview.Progress{Watermark: now()}
	}
	return all, nil
}

// knowsNobody is a store without users.
type knowsNobody struct{ store.Reader }

func (knowsNobody) Users(context.Context, []schemas.UserID) (map[schemas.UserID]schemas.Current, error) {
	return nil, nil
}

func TestAfterRedisIsLostAnswersAreStaleSinceThenAlsoWhereNobodyHadRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis, config := new(mortal), lastseen.Defaults()
		reader := query.NewReader(redis, knowsNobody{}, partitions, config, lastseen.NewMetrics(nil))
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { _ = reader.Watch(ctx) })
		read := func() schemas.Millis {
			users := must.Get(reader.Read(ctx, []schemas.UserID{7}, nil))(t)
			return users[0].StaleSince
		}
		if stale := read(); stale != 0 {
			t.Errorf("with Redis an answer is stale since %v", stale)
		}
		time.Sleep(5 * time.Minute)
		redis.dead.Store(true)
		died := now()
		time.Sleep(12 * time.Second)
		if stale := read(); stale > died || stale < died-schemas.Millis(config.StaleAfter.Milliseconds()) {
			t.Errorf("Redis died at %v, and an answer is stale since %v", died, stale)
		}
		stop()
		watching.Wait()
	})
}

func TestWhatNobodyKnowsIsAnErrorAndNeverOffline(t *testing.T) {
	t.Parallel()
	server := redistest.Mini(t)
	w := newWorld(t, server)
	check := func(why string) {
		for _, path := range []string{"/presence/1", "/presence/batch?user_ids=1", "/presence/1/history"} {
			if status, body := w.get(t, path); status != http.StatusServiceUnavailable {
				t.Errorf("%s: %s is answered with %d %s", why, path, status, body)
			}
		}
	}
	w.serve(awayView{}, away{})
	check("both away")
	w.serve(w.view, away{})
	check("an empty Redis")
	w.rebuilds(t)
	again := newWorld(t, server) // the first one may use the progress of a moment ago
	w.serve(again.view, away{})
	check("a Redis that is being rebuilt")
}

func TestAHiddenUserWhomRedisKnowsInPartKeepsTheVersionAtWhichItHid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.durably(t, arrives(1, 1, day), hides(1, 2, day+1))
	w.upTo(t, now())
	// The status topic tells that the user hides, not since which version.
	must.Get(w.view.Confirm(t.Context(), 1, []schemas.Current{{User: 1, State: schemas.Away, Since: day + 9, Version: 9,
		Visibility: schemas.Nobody}}, nil, false))(t)
	w.want(t, "/presence/1", `{"user_id":"1","state":null,"last_seen_at":null,"last_active_at":null,"devices":null,"kinds":null,"since":null,`+
		`"version":"2","stale_since":null}`)
	w.want(t, "/presence/batch?user_ids=1", `{"1":null}`)
}
