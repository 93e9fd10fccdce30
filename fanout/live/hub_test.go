package live

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// What is published again, or late, is not told again; nor does it become what whoever
// subscribes next is told while the view knows nothing yet.
func TestAnOlderChangeNeitherGoesOutNorBecomesTheSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		one := h.newViewer(0, func([]byte) error { return nil }, nil)
		one.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		synctest.Wait()
		for _, version := range []int64{3, 2, 3, 1} {
			h.Change(changeOf(1, version))
		}
		g := newGate()
		two := h.newViewer(0, g.send, nil)
		two.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		if m := g.next(); m.Type != "snapshot" || m.Users[0].Version != "3" {
			t.Errorf("%+v", m)
		}
		synctest.Wait()
		if queued, dropped := counted(h.Metrics.Queued), counted(h.Metrics.ChangesDropped); queued != 1 || dropped != 3 {
			t.Errorf("%v changes went out, %v were dropped", queued, dropped)
		}
		one.close()
		two.close()
	})
}

// The channel brings a change, and an older one again, while the snapshot is being read,
// which does not know of them yet: nobody will bring them again.
func TestWhatComesWhileTheFirstSnapshotIsReadIsInIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		h.reader.view = func(ctx context.Context, ids []schemas.UserID, names []schemas.Name) ([]schemas.Presence, error) {
			users, err := neverSeen(ctx, ids, names)
			h.Change(changeOf(1, 5))
			h.Change(changeOf(1, 4))
			return users, err
		}
		g := newGate()
		v := h.newViewer(0, g.send, nil)
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		if m := g.next(); m.Type != "snapshot" || m.Users[0].Version != "5" {
			t.Errorf("%+v", m)
		}
		h.Change(changeOf(1, 6))
		if m := g.next(); m.Type != "change" || m.User.Version != "6" {
			t.Errorf("%+v", m)
		}
		synctest.Wait()
		v.close()
	})
}

// The view is behind the channel: only that it may be out of date is news.
func TestAReadingThatIsBehindSaysOnlyThatItIsStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		g := newGate()
		one := h.newViewer(0, g.send, nil)
		one.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		g.next()
		h.Change(changeOf(1, 3))
		g.next()
		for _, stale := range []schemas.Millis{0, 7} {
			behind := changeOf(1, 2).After(schemas.Presence{})
			behind.StaleSince = stale
			h.correct(behind, 0)
		}
		if m := g.next(); m.Type != "resync" || m.Users[0].Version != "3" || m.Users[0].StaleSince == nil {
			t.Errorf("%+v", m)
		}
		two := h.newViewer(0, g.send, nil)
		two.submit(request{kind: subscribe, ids: []schemas.UserID{1}})
		if m := g.next(); m.Type != "snapshot" || m.Users[0].Version != "3" {
			t.Errorf("%+v", m)
		}
		synctest.Wait()
		one.close()
		two.close()
	})
}

func TestWhatWaitsForAViewerIsNotSentOnceItHasUnsubscribed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		g := newGate()
		v := h.newViewer(0, g.send, nil)
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1, 2}})
		g.next()
		h.Change(changeOf(1, 1))
		m := <-g.reached // it is being written, and holds up what comes now
		h.Change(changeOf(1, 2))
		h.Change(changeOf(2, 1))
		v.submit(request{kind: unsubscribe, ids: []schemas.UserID{1}})
		g.pass <- nil
		if next := g.next(); m.User.UserID != "1" || next.Type != "change" || next.User.UserID != "2" {
			t.Errorf("after %+v came %+v", m, next)
		}
		synctest.Wait()
		v.close()
	})
}

// The partition stays stale for several readings: it is looked again until it is not.
func TestWhatIsStillUnsureIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		v := h.newViewer(0, func([]byte) error { return nil }, nil)
		v.submit(request{kind: subscribe, ids: []schemas.UserID{1, 2}})
		synctest.Wait()
		if users, _ := h.watched(whoIsUnsure); len(users) != 0 {
			t.Errorf("of %v something unsure was told", users)
		}
		for _, stale := range []schemas.Millis{7, 7, 8, 0} {
			h.correct(schemas.NeverSeen(1, stale), 0)
			if users, _ := h.watched(whoIsUnsure); slices.Contains(users, 1) != (stale != 0) || slices.Contains(users, 2) {
				t.Errorf("after a reading that is stale since %d, %v are read again", stale, users)
			}
		}
		v.close()
	})
}

func TestAViewerWhoLeftIsNotLookedUpForDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		h.Deliveries = func(context.Context, func(*schemas.Delivery)) error { return nil }
		var viewers []*viewer
		for range 3 {
			v := h.newViewer(11, func([]byte) error { return nil }, nil)
			v.submit(request{kind: deliveries, on: true})
			viewers = append(viewers, v)
		}
		synctest.Wait()
		if n := len(h.recipients.of[11]); n != 3 {
			t.Fatalf("%d are told", n)
		}
		viewers[0].submit(request{kind: deliveries})
		synctest.Wait()
		for _, v := range viewers {
			v.close()
		}
		if len(h.recipients.of) != 0 {
			t.Errorf("left over: %v", h.recipients.of)
		}
	})
}

// counted reads a counter.
func counted(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue()
}

// Two names have one id. The viewers of the first go on; those of the second are shown nothing.
func TestASecondNameOfAnIDLooksHidden(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		h.Users = identity.Named(identity.Key{1})
		texts := map[string]chan string{}
		var viewers []*viewer
		for _, name := range []string{"ann", "eve"} {
			sent := make(chan string, 9)
			texts[name] = sent
			v := h.newViewer(0, func(m []byte) error { sent <- string(m); return nil }, nil)
			v.submit(request{kind: subscribe, ids: []schemas.UserID{1}, names: map[schemas.UserID]*schemas.Name{1: {Text: name}}})
			synctest.Wait()
			viewers = append(viewers, v)
		}
		h.Change(changeOf(1, 5))
		synctest.Wait()
		if a, b := <-texts["ann"], <-texts["ann"]; !strings.Contains(a, `"ann","state":"offline"`) || !strings.Contains(b, `"ann","state":"online"`) {
			t.Error(a, b)
		}
		if a := <-texts["eve"]; !strings.Contains(a, `"eve","state":null`) || len(texts["eve"]) > 0 {
			t.Error(a, len(texts["eve"]))
		}
		for _, v := range viewers {
			v.close()
		}
		for i := range h.shards {
			if len(h.shards[i].users) > 0 {
				t.Error("an entry is left")
			}
		}
	})
}

func TestADeliveryReachesTheViewerWithTheNameOfItsRecipient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bareHub(fanout.DefaultConfig())
		h.Users = identity.Named(identity.Key{1})
		h.Deliveries = func(context.Context, func(*schemas.Delivery)) error { return nil }
		reached := map[schemas.Name]int{}
		var mu sync.Mutex
		names := []schemas.Name{{Tenant: "acme", Text: "ann"}, {Tenant: "acme", Text: "eve"}, {Text: "ann"}, {}} // all have one id
		for _, name := range names {
			v := h.newViewer(11, func(m []byte) error {
				if bytes.Contains(m, []byte(`"type":"delivery"`)) {
					mu.Lock()
					defer mu.Unlock()
					reached[name]++
				}
				return nil
			}, nil)
			v.name = name.Kept()
			v.submit(request{kind: deliveries, on: true})
			defer v.close()
		}
		synctest.Wait()
		d := &schemas.Delivery{Recipients: []schemas.UserID{7, 11}, Names: []string{"bob", "ann"}, Transition: &schemas.Transition{
			User: 42, From: schemas.Offline, To: schemas.Online, At: 1, Version: 1, Name: schemas.Name{Tenant: "acme", Text: "zoe"}, Visibility: schemas.Everyone}}
		must.Do(t, h.deliver(t.Context(), d))
		d.Names, d.Transition.Version = nil, 2
		must.Do(t, h.deliver(t.Context(), d))
		synctest.Wait()
		if len(reached) != 1 || reached[names[0]] != 1 {
			t.Errorf("reached %v", reached)
		}
	})
}

func TestWhoeverShowsNoTimesIsNeitherUnsureNorErased(t *testing.T) {
	t.Parallel()
	for _, of := range []schemas.State{schemas.Offline, schemas.Away, schemas.Online} {
		for _, choice := range []schemas.LastSeen{0, schemas.SeenCoarsely, schemas.SeenNever} {
			s := newState(schemas.PresenceOf(schemas.Current{User: 1, State: of, Since: 5, LastSeen: 5, LastActive: 5, Version: 7,
				Override: schemas.Override{LastSeen: choice}}, 0, 7))
			if s.unsure() || s.erased() {
				t.Errorf("%s: unsure %t, erased %t", s.change, s.unsure(), s.erased())
			}
		}
	}
}
