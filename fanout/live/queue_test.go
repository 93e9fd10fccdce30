package live

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// bareBus is a bus on which nothing ever fails, for tests that feed the hub
// themselves.
type bareBus struct{}

func (bareBus) Subscribe(context.Context, []schemas.UserID) error         { return nil }
func (bareBus) Unsubscribe([]schemas.UserID)                              {}
func (bareBus) Run(ctx context.Context, _ fanout.Receiver) error          { <-ctx.Done(); return nil }
func noRecent(context.Context, []schemas.UserID) ([]fanout.Change, error) { return nil, nil }

func neverSeen(_ context.Context, ids []schemas.UserID, _ []schemas.Name) ([]schemas.Presence, error) {
	out := make([]schemas.Presence, len(ids))
	for i, id := range ids {
		out[i] = schemas.NeverSeen(id, 0)
	}
	return out, nil
}

func bareHub(cfg fanout.Config) *hub {
	metrics := fanout.NewMetrics(nil)
	return newHub(cfg, Dependencies{Bus: bareBus{}, View: neverSeen, Recent: noRecent, Metrics: metrics})
}

func changeOf(user, version int64) fanout.Change {
	c, _ := fanout.ChangeOf(&schemas.Transition{User: schemas.UserID(user), From: schemas.Offline, To: schemas.Online,
		At: schemas.Millis(version), Version: schemas.Version(version), Visibility: schemas.Everyone})
	return c
}

// message is what a viewer is sent, as far as these tests look.
type message struct {
	Type  string
	Count int
	Users []struct {
		Version    string
		StaleSince *string `json:"stale_since"`
	}
	User *struct {
		UserID  string `json:"user_id"`
		Version string
	}
	Error *errorBody
}

// gate is a transport that lets messages through one at a time.
type gate struct {
	reached chan message
	pass    chan error
}

func newGate() *gate { return &gate{make(chan message), make(chan error)} }

func (g *gate) send(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	g.reached <- m
	return <-g.pass
}

// next is the message that the viewer is writing now; it has arrived when the
// viewer goes on to the next one.
func (g *gate) next() message {
	m := <-g.reached
	g.pass <- nil
	return m
}

// Scenario 31.
func TestASlowViewerGetsTheNewestOfEachUserAndTheCountOfTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fanout.DefaultConfig()
		cfg.QueueLength, cfg.MaxSubscriptions = 20, 5
		h := bareHub(cfg)
		g := newGate()
		v := h.newViewer(0, g.send, nil)
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1, 2, 3, 4, 5}})
		if m := g.next(); m.Type != "snapshot" || len(m.Users) != 5 {
			t.Fatalf("%+v", m)
		}
		const changes = 20_000
		for version := range int64(changes) {
			h.Change(changeOf(1+version%5, 1+version))
			v.mu.Lock()
			waiting, room := v.queue.len(), cap(v.queue.items)
			v.mu.Unlock()
			if waiting > 20 || room > 64 {
				t.Fatalf("%d in the queue, room for %d", waiting, room)
			}
		}
		got, collapsed := map[string]string{}, 0
		inOrder := map[string]int{}
		for got["5"] != strconv.Itoa(changes) {
			switch m := g.next(); m.Type {
			case "collapsed":
				collapsed += m.Count
			case "change":
				version, _ := strconv.Atoi(m.User.Version)
				if version <= inOrder[m.User.UserID] {
					t.Fatalf("user %s: %d after %d", m.User.UserID, version, inOrder[m.User.UserID])
				}
				inOrder[m.User.UserID] = version
				got[m.User.UserID] = m.User.Version
				collapsed++ // delivered counts as accounted for
			default:
				t.Fatalf("%+v", m)
			}
		}
		if collapsed != changes {
			t.Fatalf("%d of %d accounted for", collapsed, changes)
		}
		for user, want := range map[string]string{"1": "19996", "2": "19997", "3": "19998", "4": "19999"} {
			if got[user] != want {
				t.Errorf("user %s ends at version %s, want %s", user, got[user], want)
			}
		}
		v.close()
	})
}

func TestAViewerThatStaysBehindIsDisconnectedWithTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := fanout.DefaultConfig()
		cfg.QueueLength, cfg.MaxSubscriptions = 3, 2
		h := bareHub(cfg)
		g := newGate()
		reason := make(chan error, 1)
		v := h.newViewer(0, g.send, func(err error) { reason <- err })
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		g.next()
		version := int64(0)
		flood := func() {
			for range 10 {
				version++
				h.Change(changeOf(1, version))
			}
		}
		flood()
		time.Sleep(cfg.SlowFor) // virtual
		flood()
		if v.tooSlow {
			t.Fatal("at the limit already")
		}
		time.Sleep(time.Millisecond)
		flood()
		for m := g.next(); ; m = g.next() {
			if m.Type == "error" {
				if m.Error.Code != "too_slow" {
					t.Fatalf("%+v", m)
				}
				break
			}
		}
		if err := <-reason; !errors.Is(err, errTooSlow) {
			t.Fatal(err)
		}
		v.close()
	})
}

func TestAFloodOfRequestsWaitsAndClosingEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		g := newGate()
		v := h.newViewer(0, g.send, nil)
		asked := make(chan struct{})
		n := 0
		go func() {
			defer close(asked)
			for n = range 100 {
				v.submit(refusal(errTooLong))
			}
		}()
		synctest.Wait()
		if n != maxRequests+1 { // one is being written
			t.Fatalf("%d taken in", n)
		}
		<-g.reached
		go func() { g.pass <- errors.New("gone") }()
		<-asked
		v.close()
	})
}

func TestClosingInterruptsARequestAndGivesBackWhatItHad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics := fanout.NewMetrics(nil)
		hang := func(ctx context.Context, _ []schemas.UserID, _ []schemas.Name) ([]schemas.Presence, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		h := newHub(fanout.DefaultConfig(), Dependencies{Bus: bareBus{}, View: hang, Recent: noRecent, Metrics: metrics})
		v := h.newViewer(0, func([]byte) error { return nil }, nil)
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1, 2}})
		synctest.Wait()
		begun := time.Now()
		v.close()
		if took := time.Since(begun); took != 0 {
			t.Errorf("closing took %v", took)
		}
		if users, _ := h.watched(everybody); len(users) != 0 {
			t.Errorf("still watched: %v", users)
		}
	})
}

// Whatever is pushed and popped, a user's newest change is never lost and nothing
// comes out of order.
func TestTheQueueLosesOnlyWhatItCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const users = 3
		limit := rapid.IntRange(users+1, 12).Draw(t, "limit")
		var q queue
		var subs [users]*sub
		for i := range subs {
			subs[i] = &sub{live: true}
		}
		var pushed, popped, collapsed int
		var newest, out [users]int64
		index := map[*sub]int{subs[0]: 0, subs[1]: 1, subs[2]: 2}
		pop := func() bool {
			item, ok := q.pop()
			if !ok {
				return false
			}
			i := index[item.sub]
			if item.state.version <= out[i] {
				t.Fatalf("user %d: %d after %d", i, item.state.version, out[i])
			}
			out[i] = item.state.version
			popped++
			return true
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "pop") == 0 {
				pop()
				continue
			}
			i := rapid.IntRange(0, users-1).Draw(t, "user")
			pushed++
			newest[i] = int64(pushed)
			collapsed += q.push(queued{sub: subs[i], state: &state{version: int64(pushed)}}, limit)
			if q.len() > limit {
				t.Fatalf("%d of %d", q.len(), limit)
			}
		}
		for pop() {
		}
		if out != newest || popped+collapsed != pushed {
			t.Fatalf("out %v, newest %v, pushed %d = popped %d + collapsed %d", out, newest, pushed, popped, collapsed)
		}
	})
}

func TestASnapshotOutdatesWhatWasQueuedBeforeIt(t *testing.T) {
	t.Parallel()
	s := &sub{live: true, base: 5}
	var q queue
	for _, version := range []int64{4, 5, 6} {
		q.push(queued{sub: s, state: &state{version: version}}, 10)
	}
	if item, ok := q.pop(); !ok || item.state.version != 6 {
		t.Fatalf("%+v", item)
	}
}

func TestDeliveriesThatWaitAreBoundedAndKeepTheNewestOfEachUser(t *testing.T) {
	t.Parallel()
	const limit = 4
	for users, want := range map[schemas.UserID][]int64{
		2: {19, 20},
		9: {17, 18, 19, 20}, // of more users than fit, those that waited longest are left out
	} {
		n := &deliveryQueue{}
		dropped := 0
		for i := range 20 {
			dropped += n.push(queuedDelivery{schemas.UserID(i) % users, &state{version: int64(i + 1)}}, limit)
			if len(n.items) > limit {
				t.Fatalf("%d wait", len(n.items))
			}
		}
		var got []int64
		for st := n.pop(nil); st != nil; st = n.pop(nil) {
			got = append(got, st.version)
		}
		if len(got)+dropped != 20 || !slices.Equal(got[len(got)-len(want):], want) {
			t.Errorf("%d users: %v stay and %d were left out", users, got, dropped)
		}
	}
}

// A server that takes over from one whose last writes it lacks has a fresh state that is behind the channel.
func TestAReadBehindTheChannelDoesNotMakeALossGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, g := bareHub(fanout.DefaultConfig()), newGate()
		h.Connected()
		v := h.newViewer(0, g.send, nil)
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		g.next()
		h.Change(changeOf(1, 5))
		g.next()
		h.Disconnected() // the sixth is lost
		h.Connected()
		h.correct(changeOf(1, 4).After(schemas.Presence{}), h.complete.Load())
		h.Change(changeOf(1, 7))
		if m := g.next(); m.Type != "resync" {
			t.Errorf("the next message is %+v", m)
		}
		synctest.Wait()
		v.close()
	})
}
