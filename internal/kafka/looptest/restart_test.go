//go:build synctests

package looptest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

func TestATaskThatFailsAtOneRecordParksItsPartitionAlone(t *testing.T) {
	for _, key := range []string{"error", "panic"} {
		t.Run(key, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				_, a := w.joined("a", 2)
				w.beat(0, "x")
				w.beat(0, key)
				parked := func() bool {
					s := a.Status()
					return len(s) == 2 && s[0].Phase == kafka.Parked && s[1].Phase == kafka.Running
				}
				w.until("parked", 30*time.Second, parked)
				if n := w.metric("task_failures_total"); n != 3 {
					w.Errorf("%d failures", n)
				}
				w.noRestarts()
				if n := len(w.made("a", 1)); n != 1 {
					w.Errorf("the other partition was restored %d times", n)
				}
				w.beat(0, "x")
				w.beat(1, "y")
				w.until("the other one lives", 10*time.Second, func() bool { return w.counts()["y"] == 1 })
				if n := w.counts()["x"]; n > 1 {
					w.Errorf("the parked partition went on: %d", n)
				}
				if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "parked") {
					w.Errorf("ready says %v", err)
				}
			})
		})
	}
}

func TestATaskThatFailsOnceIsRestoredAloneAndCountsEverythingOnce(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		_, transform := w.memberOf("a", w.cfg, func(c *copier) processor.Task {
			if made := len(w.made("a", 0)); c.partition == 0 && made <= 2 {
				return &stumbling{copier: c, after: 30 * made}
			}
			return c
		})
		w.has("ready", transform, 2)
		for range 100 {
			w.beat(0, "x")
			w.beat(1, "y")
			time.Sleep(10 * time.Millisecond)
		}
		w.until("all copied", 30*time.Second, func() bool { c := w.counts(); return c["x"] == 100 && c["y"] == 100 })
		w.until("ready again", 10*time.Second, func() bool { return transform.Ready() == nil })
		if made := [2]int{len(w.made("a", 0)), len(w.made("a", 1))}; made != [2]int{3, 1} {
			w.Errorf("%v tasks were made", made)
		}
		w.noRestarts()
	})
}

// stumbling is a copier that fails once, after so many records.
type stumbling struct {
	*copier
	after int
}

func (s *stumbling) Handle(r *schemas.Record, out *stream.Outbox) error {
	if s.after--; s.after == 0 {
		panic("it stumbles")
	}
	return s.copier.Handle(r, out)
}

func TestATaskThatCannotBeRestoredParksItsPartitionAlone(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		_, transform := w.memberOf("a", w.cfg, func(c *copier) processor.Task {
			if c.partition == 0 {
				return unrestorable{c}
			}
			return c
		})
		w.until("parked", 30*time.Second, func() bool {
			s := transform.Status()
			return len(s) == 2 && s[0].Phase == kafka.Parked && s[1].Phase == kafka.Running
		})
		w.beat(1, "y")
		w.until("the other one lives", 10*time.Second, func() bool { return w.counts()["y"] == 1 })
		w.noRestarts()
	})
}

type unrestorable struct{ *copier }

func (unrestorable) Restore(context.Context, stream.Assignment, stream.ReadFunc) error {
	return errors.New("a status that nobody understands")
}
