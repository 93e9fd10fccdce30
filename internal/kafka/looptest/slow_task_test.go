//go:build synctests

package looptest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// ponderous is a copier that takes its time for every record with a key.
type ponderous struct {
	*copier
	takes time.Duration
	calls *atomic.Int64
	busy  *atomic.Int64 // is in Handle
}

func (s ponderous) Handle(r *schemas.Record, out *stream.Outbox) error {
	if r.Key != nil {
		s.calls.Add(1)
		s.busy.Add(1)
		defer s.busy.Add(-1)
		time.Sleep(s.takes)
	}
	return s.copier.Handle(r, out)
}

// slowOn runs a transform whose partition 0 is slow.
func (w *world) slowOn(takes time.Duration) (t *processor.Processor, calls, busy *atomic.Int64) {
	cfg := w.cfg
	cfg.TickInterval = 2 * time.Second // minutes pass
	calls, busy = new(atomic.Int64), new(atomic.Int64)
	_, t = w.memberOf("a", cfg, func(c *copier) processor.Task {
		if c.partition == 0 {
			return ponderous{c, takes, calls, busy}
		}
		return c
	})
	return t, calls, busy
}

func TestManySlowRecordsAreNotAStallAndAreCommittedAlongTheWay(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		const n = 400
		for range n {
			w.beat(0, "x")
		}
		_, calls, _ := w.slowOn(100 * time.Millisecond)
		time.Sleep(20 * time.Second)
		if c := w.counts()["x"]; c < 100 {
			w.Errorf("after 20 s only %d are committed", c)
		}
		w.until("all copied", time.Minute, func() bool { return w.counts()["x"] == n })
		w.noRestarts()
		if c := calls.Load(); c != n {
			w.Errorf("%d records were handled", c)
		}
	})
}

// Ticks say whether the owner of a partition keeps up, and come as often if it does not.
func TestTicksSayWhetherThePartitionKeepsUp(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		_, calls, _ := w.slowOn(time.Second)
		w.until("ticking", time.Minute, func() bool { return len(w.read(schemas.Heartbeats)) > 10 })
		begun := schemas.MillisOf(time.Now())
		for range 60 {
			w.beat(0, "x")
		}
		w.until("handled", 2*time.Minute, func() bool { return calls.Load() == 60 })
		handled := schemas.MillisOf(time.Now())
		time.Sleep(30 * time.Second)
		const grace = 8000 // the round trip of a tick, and until the next one
		ticks := map[int32]int{}
		for _, r := range w.read(schemas.Heartbeats) {
			var f schemas.Frame
			if f.Decode(r.Value) != nil || !f.Tick {
				continue
			}
			ticks[r.Partition]++
			behind := ticks[r.Partition] == 1 || r.Partition == 0 && begun+grace < r.Time && r.Time < handled-grace
			onTime := ticks[r.Partition] > 2 && (r.Time < begun || r.Time > handled+grace)
			if behind && !f.Behind || onTime && f.Behind {
				w.Errorf("partition %d, %d ms after the first beat: behind %v", r.Partition, r.Time-begun, f.Behind)
			}
		}
		if ticks[0] < 45 {
			w.Errorf("%d ticks in 100 s", ticks[0])
		}
	})
}

func TestARecordThatTakesLongIsGivenMoreTimeAtEveryRestart(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.beat(0, "x")
		w.slowOn(40 * time.Second)
		w.until("copied", 3*time.Minute, func() bool { return w.counts()["x"] == 1 })
		if n := w.metric("session_restarts_total", "reason", "stall"); n != 2 {
			w.Errorf("%d restarts", n)
		}
	})
}

func TestARecordThatTakesForEverParksItsPartitionAlone(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.beat(0, "x")
		transform, calls, _ := w.slowOn(20 * time.Minute)
		w.until("parked", 5*time.Minute, func() bool {
			s := transform.Status()
			return len(s) == 2 && s[0].Phase == kafka.Parked && s[1].Phase == kafka.Running
		})
		for i := range 10 {
			w.beat(1, fmt.Sprint("y", i))
		}
		w.until("the other one lives", 10*time.Second, func() bool { return w.counts()["y9"] == 1 })
		time.Sleep(5 * time.Minute)
		if n, again := w.metric("session_restarts_total", "reason", "stall"), calls.Load(); n != 3 || again != 3 {
			w.Errorf("%d restarts, the record was handled %d times", n, again)
		}
		if offset, _ := w.commits(0); offset > 0 {
			w.Errorf("the record was skipped: offset %d is committed", offset)
		}
		time.Sleep(20 * time.Minute) // the abandoned goroutines end
	})
}

// mute takes its time for every record and has no output for those with the key "mute".
type mute struct {
	*copier
	takes time.Duration
}

func (m mute) Handle(r *schemas.Record, out *stream.Outbox) error {
	if string(r.Key) == "mute" {
		time.Sleep(m.takes)
		m.next, m.logTime = r.Offset+1, max(m.logTime, r.Time)
		return nil
	}
	return m.copier.Handle(r, out)
}

func TestSlowRecordsWithoutOutputAreNotAStall(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		for range 300 {
			w.beat(0, "mute")
		}
		w.beat(0, "x")
		cfg := w.cfg
		cfg.TickInterval = 2 * time.Second
		_, m := w.memberOf("a", cfg, func(c *copier) processor.Task { return mute{c, 300 * time.Millisecond} })
		time.Sleep(5 * time.Minute)
		if w.counts()["x"] != 1 {
			w.Errorf("after 5 minutes the last one is not copied: %+v", m.Status())
		}
		w.noRestarts()
	})
}
