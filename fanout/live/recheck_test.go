package live_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/live"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// rule is a MayWatch that changes its mind.
type rule struct {
	mu    sync.Mutex
	err   error
	asked int
}

func (r *rule) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.asked = err, 0
}

func (r *rule) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *rule) mayWatch(context.Context, schemas.UserID, []schemas.UserID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.err
}

func TestARevokedViewerGetsAnErrorAndNothingElse(t *testing.T) {
	t.Parallel()
	g := newRig(t, redistest.Mini(t))
	config := fanout.DefaultConfig()
	config.RecheckInterval = 20 * time.Millisecond
	may := &rule{}
	server, err := live.New(config, live.Dependencies{Bus: g.bus.Bus, Recent: g.bus.Recent, View: g.view.Read, Metrics: g.metrics, MayWatch: may.mayWatch})
	must.Do(t, err)
	// Changes come to the rig's own server: what this one is told is not of interest.
	p := g.dialAt(g.front(server))
	p.watch(1, 2, 3)

	may.set(errors.New("the graph is away")) // nobody goes blind for that
	eventually(t, "it is asked again and again", func() bool { return may.times() >= 3 })
	if n := valueOf(g.metrics.Subscriptions); n != 3 {
		t.Errorf("%v subscriptions while it cannot be decided", n)
	}

	may.set(&live.NotAllowed{Users: []schemas.UserID{2}})
	if m := p.expect(watch.Error); m.Problem.Code != "not_allowed" || m.Problem.UserID != "2" {
		t.Errorf("%+v", m.Problem)
	}
	may.set(nil)
	if n := valueOf(g.metrics.Subscriptions); n != 2 {
		t.Errorf("%v subscriptions", n)
	}
	eventually(t, "the others are asked for again", func() bool { return may.times() >= 2 })

	may.set(&schemas.FieldError{Code: "not_allowed", Reason: "you may watch nobody"})
	if m := p.expect(watch.Error); m.Problem.Code != "not_allowed" || m.Problem.UserID != "" {
		t.Errorf("%+v", m.Problem)
	}
	g.gone()
	if n := valueOf(g.metrics.Revoked); n != 3 {
		t.Errorf("%v revoked", n)
	}
	may.set(nil)
	p.watch(1) // and may begin again
}

// silentBus has everything subscribed and brings nothing.
type silentBus struct{}

func (silentBus) Subscribe(context.Context, []schemas.UserID) error { return nil }
func (silentBus) Unsubscribe([]schemas.UserID)                      {}
func (silentBus) Run(ctx context.Context, _ fanout.Receiver) error  { <-ctx.Done(); return nil }

func TestItIsAskedEveryIntervalForAsLongAsSomebodyIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config, may := fanout.DefaultConfig(), &rule{}
		v := newView()
		server := must.Get(live.New(config, live.Dependencies{Bus: silentBus{}, View: v.Read, MayWatch: may.mayWatch,
			Recent: func(context.Context, []schemas.UserID) ([]fanout.Change, error) { return nil, nil }}))(t)
		handle, end := server.Open(1, schemas.Name{}, false, func([]byte) error { return nil })
		asked := func(after time.Duration) int {
			may.set(nil)
			time.Sleep(after)
			synctest.Wait()
			return may.times()
		}
		handle([]byte(`{"type":"subscribe","user_ids":["1","2"]}`))
		handle([]byte(`{"type":"subscribe","user_ids":["3"]}`))
		synctest.Wait()
		if n := may.times(); n != 2 {
			t.Errorf("asked %d times for two requests", n)
		}
		// One question for all of them, jittered by a quarter.
		if n := asked(100 * config.RecheckInterval); n < 80 || n > 134 {
			t.Errorf("asked %d times in a hundred intervals", n)
		}
		handle([]byte(`{"type":"unsubscribe","user_ids":["1","2","3"]}`))
		synctest.Wait()
		if n := asked(100 * config.RecheckInterval); n != 0 {
			t.Errorf("asked %d times about nobody", n)
		}
		handle([]byte(`{"type":"subscribe","user_ids":["1"]}`))
		synctest.Wait()
		if n := asked(2 * config.RecheckInterval); n == 0 {
			t.Error("not asked about who is watched again")
		}
		end()
		if n := asked(100 * config.RecheckInterval); n != 0 {
			t.Errorf("asked %d times after the end", n)
		}
	})
}
