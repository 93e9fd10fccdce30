package beat_test

import (
	"maps"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// names are those in the frames.
func names(frames []beattest.Written) map[schemas.UserID]schemas.Name {
	all := map[schemas.UserID]schemas.Name{}
	for _, w := range frames {
		maps.Copy(all, w.Names)
	}
	return all
}

func TestFramesNameTheUsersOfBeats(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		// All in one partition, so that rows with names and without share a frame.
		ann := schemas.Name{Tenant: "acme", Text: "ann"}
		for user := schemas.UserID(1); user <= 40; user++ {
			var name *schemas.Name
			if user == 17 {
				name = &ann
			}
			must.Do(t, g.Beat(user, name, 7, schemas.Mobile, 0))
		}
		k := must.Get(g.Connect(99, &schemas.Name{Text: "bob"}, 7, schemas.Web, 0))(t)
		pass(2 * time.Second)
		got := names(g.log.Written())
		if len(got) != 2 || got[17] != ann || got[99].Text != "bob" {
			t.Errorf("the names are %+v", got)
		}
		must.Do(t, k.Bye())
	})
}

// Not parallel: it counts the allocations of the whole process.
func TestRepeatedBeatsByNameDoNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, 12)
		k := must.Get(c.Connect(1, &schemas.Name{Text: "ann"}, 7, schemas.Web, 0))(t)
		synctest.Wait()
		if n := testing.AllocsPerRun(100, func() { _ = k.Beat(0) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// The tenant's devices beat every minute, those of all others every 15 s.
func TestTheSettingsOfAGatewayAreThoseOfItsPolicies(t *testing.T) {
	t.Parallel()
	pipeline := schemas.DefaultPolicy()
	calm := pipeline
	calm.HeartbeatInterval, calm.OnlineTTL, calm.AwayTTL = time.Minute, 3*time.Minute, 10*time.Minute
	policies := map[string]*schemas.Policy{"calm": &calm}
	config := beat.Config{}.Under(pipeline, policies)
	if config.ForgetAfter != 4*time.Minute || config.ReportAgainAfter != 22500*time.Millisecond || config.HeartbeatInterval != pipeline.HeartbeatInterval || config.Intervals["calm"] != time.Minute {
		t.Errorf("the settings are %+v", config)
	}
	for window, gap := range map[time.Duration]time.Duration{0: 5 * time.Second, 10 * time.Second: 12500 * time.Millisecond} {
		if pipeline.ReconnectWindow = window; (beat.Config{}).Under(pipeline, nil).ReportAgainAfter != gap {
			t.Errorf("with a window of %s, connections are not told again after %s", window, gap)
		}
	}
	if own := (beat.Config{HeartbeatInterval: time.Second, ForgetAfter: time.Hour}).Under(pipeline, policies); own.Intervals != nil || own.ForgetAfter != time.Hour {
		t.Errorf("with settings of its own they are %+v", own)
	}
}

func TestOpenConnectionsOfAnErasedUserTellTheNameAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		ann := schemas.Name{Tenant: "acme", Text: "ann"}
		k := must.Get(g.Connect(17, &ann, 7, schemas.Web, 0))(t)
		for _, erased := range [][]schemas.UserID{nil, {99, 17}, {18}} {
			pass(15 * time.Second)
			g.Erased(erased)
			pass(time.Millisecond)
			before := len(g.log.Written())
			must.Do(t, k.Beat(0))
			pass(2 * time.Second)
			got := names(g.log.Written()[before:])
			if named := got[17] == ann; named != (len(erased) == 2) || len(got) > 1 {
				t.Errorf("after an erasure of %v the names are %v", erased, got)
			}
		}
	})
}

// Not parallel: it measures the memory of the whole process.
func TestErasedUsersTakeABoundedMemoryHoweverManyPartitionsThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 256
		c := newClient(t, partitions)
		for user := schemas.UserID(1); user <= 20*partitions; user++ { // some in each
			must.Do(t, c.Beat(user, &schemas.Name{Text: "ann"}, 7, schemas.Web, 0))
		}
		heap := func() float64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc) / 1e6
		}
		users := make([]schemas.UserID, 100_000)
		before, most := heap(), 0.0
		for n := range 20 {
			for i := range users {
				users[i] = schemas.UserID(1_000_000 + n*len(users) + i)
			}
			c.Erased(users)
			most = max(most, heap()-before)
		}
		if most > 12 {
			t.Errorf("after 2,000,000 erasures in a moment %.1f MB more are used", most)
		}
		t.Logf("at most %.1f MB", most)
	})
}
