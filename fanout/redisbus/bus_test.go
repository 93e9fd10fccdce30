package redisbus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/redisbus"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) {
	// A pool of go-redis that is closed while it finds its server away looks again within
	// a second, and only then ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// inbox is a Receiver that a test can wait on.
type inbox struct {
	changes   chan fanout.Change
	connected chan struct{}
}

func newInbox() *inbox {
	return &inbox{changes: make(chan fanout.Change, 10_000), connected: make(chan struct{}, 1000)}
}

func (i *inbox) Change(c fanout.Change) { i.changes <- c }
func (i *inbox) Reread(schemas.UserID)  {}
func (i *inbox) Connected()             { i.connected <- struct{}{} }
func (i *inbox) Disconnected()          {}

func (i *inbox) next(t *testing.T) fanout.Change {
	t.Helper()
	select {
	case c := <-i.changes:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func (i *inbox) awaitConnected(t *testing.T) {
	t.Helper()
	select {
	case <-i.connected:
	case <-time.After(20 * time.Second):
		t.Fatal("never connected")
	}
}

func open(t *testing.T, r *redistest.Server) *redisbus.Bus {
	t.Helper()
	bus, err := redisbus.Open(redisbus.Options{Addr: r.Addr, Dialer: r.Dial}, fanout.DefaultConfig(), fanout.NewMetrics(nil), nil)
	must.Do(t, err)
	t.Cleanup(func() { bus.Close() })
	return bus
}

// listen runs the bus until the test ends.
func listen(t *testing.T, bus *redisbus.Bus) *inbox {
	t.Helper()
	in := newInbox()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bus.Run(ctx, in) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	in.awaitConnected(t)
	return in
}

func change(user schemas.UserID, version int64, from, to schemas.State) fanout.Change {
	t := &schemas.Transition{User: user, From: from, To: to, At: schemas.Millis(1000 + version%1_000_000), Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: schemas.Version(version)}
	c, _ := fanout.ChangeOf(t)
	return c
}

func publish(t *testing.T, bus *redisbus.Bus, changes ...fanout.Change) int {
	t.Helper()
	sent := must.Get(bus.Publish(t.Context(), changes))(t)
	return sent
}

func TestWhatIsPublishedAfterSubscribeReturnsArrivesInOrder(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		bus := open(t, r)
		in := listen(t, bus)
		must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{1, 2}))
		var all []fanout.Change
		for v := range int64(1200) {
			all = append(all, change(schemas.UserID(1+v%3), v+1, schemas.Offline, schemas.Online))
		}
		if sent := publish(t, bus, all...); sent != len(all) {
			t.Fatalf("sent %d of %d", sent, len(all))
		}
		last := map[schemas.UserID]schemas.Version{}
		for range 800 { // user 3 is not subscribed
			c := in.next(t).Transition
			if c.Version <= last[c.User] || c.User == 3 {
				t.Fatalf("user %d version %d after %d", c.User, c.Version, last[c.User])
			}
			last[c.User] = c.Version
		}
		if last[1] != 1198 || last[2] != 1199 {
			t.Fatalf("last versions %v", last)
		}
	})
}

// One publisher loads the script again between two calls of another one's pipeline: of these the second alone
// runs, with newer changes of the same users.
func TestPublishersOfManyChangesOfAUserLoseNoneWhenTheScriptIsGone(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		bus := open(t, r)
		client := redis.NewClient(&redis.Options{Addr: r.Addr})
		t.Cleanup(func() { _ = client.Close() })
		for round := range int64(20) {
			must.Do(t, client.ScriptFlush(t.Context()).Err())
			var running sync.WaitGroup
			for part := range schemas.UserID(4) {
				running.Go(func() {
					var all []fanout.Change
					for i := range int64(500) { // of 100 users
						user := 1 + part*100 + schemas.UserID(i%100)
						all = append(all, change(user, 10*round+i/100+1, schemas.Offline, schemas.Online))
					}
					if sent, err := bus.Publish(t.Context(), all); err != nil || sent != len(all) {
						t.Errorf("round %d: sent %d of %d (%v)", round, sent, len(all), err)
					}
				})
			}
			running.Wait()
		}
	})
}

func TestAnOlderOrRepeatedChangeIsNeitherStoredNorPublished(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		bus := open(t, r)
		in := listen(t, bus)
		must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{1}))
		// Versions that a Lua number cannot tell apart.
		const big = 1<<62 + 1
		newer := change(1, big+1, schemas.Offline, schemas.Online)
		older := change(1, big, schemas.Away, schemas.Offline)
		if sent := publish(t, bus, newer, older, newer); sent != 1 {
			t.Fatalf("sent %d", sent)
		}
		publish(t, bus, change(1, big+2, schemas.Online, schemas.Away))
		for _, want := range []schemas.Version{big + 1, big + 2} {
			if c := in.next(t); c.Transition.Version != want {
				t.Fatalf("got version %d, want %d", c.Transition.Version, want)
			}
		}
		kept, err := bus.Recent(t.Context(), []schemas.UserID{1, 2})
		if err != nil || len(kept) != 1 || kept[0].Transition.Version != big+2 {
			t.Fatalf("kept %v, %v", kept, err)
		}
	})
}

func TestSinceIsCarriedWhileTheStateStaysButNotThroughAHide(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		bus := open(t, r)
		since := func(c fanout.Change) schemas.Millis {
			t.Helper()
			publish(t, bus, c)
			kept, err := bus.Recent(t.Context(), []schemas.UserID{1})
			if err != nil || len(kept) != 1 {
				t.Fatalf("%v, %v", kept, err)
			}
			return kept[0].Since
		}
		if got := since(change(1, 1, schemas.Offline, schemas.Online)); got != 1001 {
			t.Errorf("after coming online: %d", got)
		}
		if got := since(change(1, 2, schemas.Online, schemas.Online)); got != 1001 {
			t.Errorf("after another device: %d", got)
		}
		hide, _ := fanout.ChangeOf(&schemas.Transition{User: 1, From: schemas.Online, To: schemas.Online, At: 2000,
			Cause: schemas.VisibilityChange, Visibility: schemas.Nobody, Version: 3, LastSeen: 1999, Kinds: schemas.SetOfKinds(schemas.Web)})
		if got := since(hide); got != 0 {
			t.Errorf("hidden: %d", got)
		}
		if got := since(change(1, 5, schemas.Online, schemas.Online)); got != 0 {
			t.Errorf("shown again: %d", got)
		}
		if t1 := hide.Transition; t1.LastSeen != 0 || t1.Kinds != 0 || t1.To != schemas.Offline {
			t.Errorf("the clearing message says more than that the user hides: %+v", t1)
		}
	})
}

func TestAfterALostConnectionAllChannelsAreSubscribedBeforeConnectedIsCalled(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		bus := open(t, r)
		in := listen(t, bus)
		var users []schemas.UserID
		for id := range 1300 {
			users = append(users, schemas.UserID(id+1))
		}
		must.Do(t, bus.Subscribe(t.Context(), users))
		for round := range int64(3) {
			r.Cut()
			in.awaitConnected(t)
			var all []fanout.Change
			for _, id := range users {
				all = append(all, change(id, round+1, schemas.Offline, schemas.Online))
			}
			publishStubbornly(t, bus, all)
			for range users {
				if c := in.next(t); int64(c.Transition.Version) != round+1 {
					t.Fatalf("round %d: version %d", round, c.Transition.Version)
				}
			}
		}
	})
}

// publishStubbornly does as the consumer does: again until it works.
func publishStubbornly(t *testing.T, bus *redisbus.Bus, changes []fanout.Change) {
	t.Helper()
	for try := 0; ; try++ {
		_, err := bus.Publish(t.Context(), changes)
		if err == nil {
			return
		}
		if try == 50 {
			t.Fatal(err)
		}
	}
}

func TestSubscribingWhileRedisIsAwaySaysSoAndIsMadeGoodLater(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	bus := open(t, r)
	in := listen(t, bus)
	must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{1}))
	r.Down()
	var err error
	for user := schemas.UserID(2); err == nil; user++ { // until the loss is noticed
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = bus.Subscribe(ctx, []schemas.UserID{user})
		cancel()
	}
	if !errors.Is(err, redisbus.ErrDisconnected) {
		t.Fatal(err)
	}
	if _, err := bus.Publish(t.Context(), []fanout.Change{change(2, 1, schemas.Offline, schemas.Online)}); err == nil {
		t.Fatal("published into nothing")
	}
	r.Up()
	in.awaitConnected(t)
	publishStubbornly(t, bus, []fanout.Change{change(2, 1, schemas.Offline, schemas.Online)})
	if c := in.next(t); c.Transition.User != 2 {
		t.Fatalf("got %v", c.Transition)
	}
}

func TestTheChannelIsSharedAndLeftByTheLast(t *testing.T) {
	t.Parallel()
	redistest.EachOwn(t, func(t *testing.T, r *redistest.Server) {
		bus := open(t, r)
		listen(t, bus)
		for range 3 {
			must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{7}))
		}
		admin := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true})
		defer admin.Close()
		subscribers := func() int64 {
			command := "SHARDNUMSUB"
			if r.Mini != nil {
				command = "NUMSUB"
			}
			counts := must.Get(admin.Do(t.Context(), "PUBSUB", command, "presence:live:{7}").Result())(t)
			switch counts := counts.(type) {
			case []any:
				return counts[1].(int64)
			case map[any]any:
				return counts["presence:live:{7}"].(int64)
			default:
				panic(fmt.Sprintf("%T", counts))
			}
		}
		if n := subscribers(); n != 1 {
			t.Fatalf("%d subscriptions for three viewers", n)
		}
		bus.Unsubscribe([]schemas.UserID{7})
		bus.Unsubscribe([]schemas.UserID{7})
		confirm := func(user schemas.UserID) { // everything sent before has been executed
			t.Helper()
			must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{user}))
		}
		confirm(8)
		if n := subscribers(); n != 1 {
			t.Fatalf("%d subscriptions for one viewer", n)
		}
		bus.Unsubscribe([]schemas.UserID{7})
		confirm(9)
		if n := subscribers(); n != 0 {
			t.Fatalf("%d subscriptions for nobody", n)
		}
	})
}

func TestAMessageThatCannotBeReadIsPassedOver(t *testing.T) {
	t.Parallel()
	r := redistest.Mini(t)
	bus := open(t, r)
	in := listen(t, bus)
	must.Do(t, bus.Subscribe(t.Context(), []schemas.UserID{1}))
	for _, garbage := range []string{"", "x", "0000000000000001000", "00000000000000010000garbage"} {
		r.Mini.Publish("presence:live:{1}", garbage)
	}
	publish(t, bus, change(1, 1, schemas.Offline, schemas.Online))
	if c := in.next(t); c.Transition.Version != 1 {
		t.Fatalf("got %v", c.Transition)
	}
}
