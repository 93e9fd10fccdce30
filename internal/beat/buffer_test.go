package beat_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const partitions = 4

// gateway is a running client in a bubble of virtual time.
type gateway struct {
	*beat.Buffer
	t     *testing.T
	log   *beattest.Log
	start time.Time
}

// inBubble runs a test with a gateway, which gives up what is in flight at the end.
func inBubble(t *testing.T, test func(g gateway)) {
	t.Helper()
	inQuiet(t, func(g gateway) {
		test(g)
		ended, end := context.WithCancel(context.Background())
		end()
		g.Close(ended)
	})
}

func (g gateway) beat(user schemas.UserID, idle time.Duration) {
	g.t.Helper()
	must.Do(g.t, g.Beat(user, nil, 7, schemas.Mobile, idle))
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestFirstBeatAndByeLeaveWithin10ms(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		g.beat(1, 0)
		g.beat(2, 0)
		pass(10 * time.Millisecond)
		if n := len(g.log.Beats()); n != 2 {
			t.Fatalf("%d beats after 10 ms, want 2", n)
		}
		pass(2500 * time.Millisecond)
		said := time.Now()
		must.Do(t, g.Bye(2, 7))
		pass(10 * time.Millisecond)
		w := g.log.Written()
		last := w[len(w)-1]
		if len(last.Beats) != 1 || !last.Beats[0].Bye || last.At.Sub(said) > 10*time.Millisecond {
			t.Fatalf("got %+v, want a bye within 10 ms", last)
		}
	})
}

func TestThousandBeatsASecondAreOneRowPerFlush(t *testing.T) {
	t.Parallel() // scenario 40
	inBubble(t, func(g gateway) {
		for range 5000 {
			g.beat(1, 0)
			pass(time.Millisecond)
		}
		if n := len(g.log.Beats()); n < 5 || n > 8 {
			t.Fatalf("%d rows in 5 s, want the first and one per flush of 0.8 to 1 s", n)
		}
	})
}

func TestFramesCarryGatewayEpochAndASequencePerPartition(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		for range 10 {
			for user := range schemas.UserID(20) {
				g.beat(user+1, 0)
			}
			pass(time.Second)
		}
		next := map[int32]uint64{}
		for _, w := range g.log.Written() {
			next[w.Partition]++
			if w.Gateway != "gw-1" || w.Epoch != schemas.MillisOf(g.start) || w.Sequence != next[w.Partition] || w.Key != nil {
				t.Fatalf("got %+v, want gw-1, epoch %d, sequence %d, no key", w, schemas.MillisOf(g.start), next[w.Partition])
			}
		}
		if len(next) != partitions {
			t.Fatalf("frames in %d partitions, want %d", len(next), partitions)
		}
	})
}

func TestAGatewayWithUsersSaysThatItIsThereEvery2s(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		g.beat(1, 0)
		pass(50 * time.Second)
		w := g.log.Alive()
		for i := 1; i < len(w); i++ {
			gap := w[i].At.Sub(w[i-1].At)
			if gap > 2*time.Second || w[i].Gateway != "gw-1" || w[i].Epoch != schemas.MillisOf(g.start) {
				t.Fatalf("%s between two frames, of %s", gap, w[i].Gateway)
			}
		}
		if n := len(g.log.Written()); n != 1 {
			t.Fatalf("%d frames of heartbeats, want that of the beat", n)
		}
		if len(w) < 25 || len(w) > 40 {
			t.Fatalf("%d frames in 50 s, want one every 1.5 to 1.75 s", len(w))
		}
		pass(time.Minute) // silent for longer than it is remembered
		before := len(g.log.Alive())
		pass(time.Minute)
		if after := len(g.log.Alive()); after != before {
			t.Fatalf("%d alive frames without users", after-before)
		}
	})
}

func TestOpenConnectionsAreToldAgainAfterAGapInWhichTheGatewayMayBeLost(t *testing.T) {
	t.Parallel()
	for of, want := range map[struct{ gap, allowed time.Duration }]int{
		{0, beat.Config{}.Under(schemas.Policy{GatewaySilence: time.Second}, nil).ReportAgainAfter}: 1,
		{5 * time.Second, 0}: 1, {11 * time.Second, 0}: 2, {11 * time.Second, 20 * time.Second}: 1} {
		inBubble(t, func(g gateway) {
			g.Follow(beat.Config{ReportAgainAfter: of.allowed})
			must.Do(t, g.Hold(1, nil, 7, schemas.Mobile, 0))
			pass(20 * time.Second)
			g.log.Refuse(errors.New("no"), schemas.Gateways)
			pass(of.gap)
			g.log.Refuse(nil)
			pass(5 * time.Second)
			if rows := len(g.log.Beats()); rows != want {
				t.Errorf("%d rows after a gap of %s, %s allowed, want %d", rows, of.gap, of.allowed, want)
			}
		})
	}
}

func TestOpenConnectionsAreToldAgainWhereADetectorHasLostThem(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		p := schemas.PartitionOf(1, partitions)
		g.Restarted(map[int32]schemas.Millis{p: 7})
		must.Do(t, g.Hold(1, nil, 7, schemas.Mobile, 0))
		for i, c := range []struct {
			at   map[int32]schemas.Millis
			rows int
		}{
			{map[int32]schemas.Millis{p: 7, p + 1: 9}, 1}, {nil, 1},
			{map[int32]schemas.Millis{p: 8, partitions + 1: 9}, 2}, {map[int32]schemas.Millis{p: 8}, 2},
		} {
			pass(5 * time.Second)
			g.Restarted(c.at)
			pass(2 * time.Second)
			if rows := len(g.log.Beats()); rows != c.rows {
				t.Errorf("%d rows after look %d, want %d", rows, i, c.rows)
			}
		}
	})
}

func TestAfterAnOutageTheNewestReportsArriveWithTrueAges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		g.beat(1, 0)
		pass(time.Second)
		g.log.Away(true)
		g.beat(2, 0) // in flight, and then silent
		silent := time.Now()
		var last time.Time
		for range 8 {
			pass(15 * time.Second)
			g.beat(1, 3*time.Second)
			last = time.Now()
		}
		pass(7 * time.Second)
		during := len(g.log.Written())
		g.log.Away(false)
		pass(6 * time.Second) // appends of the outage end after 5 s
		heard := map[schemas.UserID]schemas.Beat{}
		for _, w := range g.log.Written()[during:] {
			for _, b := range w.Beats {
				if _, twice := heard[b.User]; twice {
					t.Fatalf("user %d was sent twice", b.User)
				}
				heard[b.User] = b
				at := map[schemas.UserID]time.Time{1: last, 2: silent}[b.User]
				if got := w.At.Add(-time.Duration(b.Age) * time.Millisecond).Sub(at).Abs(); got > time.Millisecond {
					t.Fatalf("user %d: age %d is off by %s", b.User, b.Age, got)
				}
			}
		}
		if len(heard) != 2 || heard[1].Idle != 3000 {
			t.Fatalf("got %+v, want the newest of both users", heard)
		}
	})
}

func TestFailuresAreNotRetriedInATightLoop(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		g.log.Refuse(errors.New("no"))
		g.beat(1, 0)
		pass(10 * time.Second)
		if n := g.log.Tried(); n < 8 || n > 30 {
			t.Fatalf("%d attempts in 10 s, want about one per flush and the alive frames", n)
		}
	})
}

func TestBadIDsAreRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		for field, err := range map[string]error{
			"user_id":   g.Beat(0, nil, 7, schemas.Mobile, 0),
			"device_id": g.Beat(1, nil, 0, schemas.Mobile, 0),
		} {
			var bad *schemas.FieldError
			if !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("got %v, want an error that names %s", err, field)
			}
		}
		if err := g.Bye(-1, 7); !schemas.IsInvalid(err) {
			t.Errorf("bye of user -1: %v", err)
		}
		pass(2 * time.Second)
		if g.log.Tried() != 0 {
			t.Error("something was sent")
		}
	})
}

func TestConfigReportsAllFaultsJoined(t *testing.T) {
	t.Parallel()
	_, err := beat.New(beat.Config{AliveInterval: time.Hour, ForgetAfter: time.Second}, nil)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 4 {
		t.Fatalf("got %v, want four faults", err)
	}
}
