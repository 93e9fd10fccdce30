package beat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// inQuiet runs a test with a gateway in virtual time, and closes it at the end.
func inQuiet(t *testing.T, test func(g gateway)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &beattest.Log{Partitions: partitions}
		c := must.Get(beat.New(beat.Config{GatewayID: "gw-1", Partitions: partitions}, log))(t)
		test(gateway{c, t, log, time.Now()})
		must.Do(t, c.Close(t.Context()))
		synctest.Wait() // a goroutine that is left fails the bubble
	})
}

func TestTheFirstBeatStartsTheBuffer(t *testing.T) {
	t.Parallel()
	inQuiet(t, func(g gateway) {
		g.beat(1, 0)
		pass(10 * time.Millisecond)
		if n := len(g.log.Beats()); n != 1 {
			t.Fatalf("%d beats after 10 ms, want 1", n)
		}
		pass(5 * time.Second)
		if frames := len(g.log.Alive()); frames < 3 {
			t.Errorf("%d signs of life after 5 s, want one every 1.5 s", frames)
		}
	})
}

func TestABufferThatWasNeverUsedCloses(t *testing.T) {
	t.Parallel()
	inQuiet(t, func(gateway) {})
}

func TestADeviceLeavesWhenTheLastOfItsConnectionsSaysBye(t *testing.T) {
	t.Parallel()
	open := func(g gateway) *beat.Connection {
		t.Helper()
		return must.Get(g.Connect(1, nil, 7, schemas.Web, 0))(t)
	}
	// says tells whether the newest report of the device is a bye.
	says := func(g gateway, bye bool, when string) {
		t.Helper()
		pass(1500 * time.Millisecond)
		beats := g.log.Beats()
		if last := beats[len(beats)-1]; last.Bye != bye {
			t.Errorf("%s: the newest report says bye: %t, want %t", when, last.Bye, bye)
		}
	}
	bye := func(k *beat.Connection) {
		t.Helper()
		must.Do(t, k.Bye())
	}
	inQuiet(t, func(g gateway) {
		first, second := open(g), open(g)
		bye(first)
		says(g, false, "one of two tabs is closed")
		must.Do(t, first.Beat(0))
		bye(second)
		says(g, true, "the other is closed, and the first does not count although it says something")
		third := open(g)
		says(g, false, "a new one is opened")
		bye(second)
		says(g, false, "one that was closed says bye again")
		bye(third)
		says(g, true, "and the new one is closed")
	})
	inQuiet(t, func(g gateway) {
		first, second := open(g), open(g)
		must.Do(t, second.Drop())
		says(g, false, "one is lost")
		bye(first)
		says(g, true, "the last that is alive says bye")
		first = open(g)
		must.Do(t, first.Drop())
		says(g, false, "the only one is lost: no bye")
	})
	inQuiet(t, func(g gateway) {
		idle := func(when string, least, most time.Duration) {
			t.Helper()
			pass(1500 * time.Millisecond)
			beats := g.log.Beats()
			if got := time.Duration(beats[len(beats)-1].Idle) * time.Millisecond; got < least || got > most {
				t.Errorf("%s: the device is idle for %s, want %s to %s", when, got, least, most)
			}
		}
		first, second := open(g), open(g)
		must.Do(t, second.Beat(time.Minute))
		idle("one tab is used, the other is not", 0, 0)
		must.Do(t, first.Beat(time.Hour))
		idle("none is", time.Minute, 62*time.Second)
		must.Do(t, first.Beat(0))
		idle("the first is again", 0, 0)
		bye(first)
		idle("it is closed, and nobody uses the other", time.Millisecond, time.Second)
	})
	inQuiet(t, func(g gateway) {
		if k, err := g.Connect(0, nil, 7, schemas.Web, 0); k != nil || err == nil {
			t.Errorf("a connection of user 0: %v %v", k, err)
		}
	})
}
