//go:build synctests

package looptest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// late is a copier whose first restore waits, as in a process that stands still, and then
// looks whether changes were published although the group has committed nothing.
type late struct {
	*copier
	stands, goesOn chan struct{}
	once           *sync.Once
	gone           func() // the group's commit is gone
}

func (l *late) Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error {
	l.once.Do(func() { close(l.stands); <-l.goesOn })
	published := 0
	err := read(ctx, schemas.Transitions, -1, -1, func(*schemas.Record) error { published++; return nil })
	if err != nil {
		return err
	}
	if at.Offset < 0 && published > 0 {
		l.gone()
	}
	return l.copier.Restore(ctx, at, read)
}

// memberLate is a member whose first restore waits for goesOn.
func (w *world) memberLate(name string, stands, goesOn chan struct{}, gone func()) *processor.Processor {
	once := new(sync.Once)
	_, p := w.memberOf(name, w.cfg, func(c *copier) processor.Task {
		return &late{copier: c, stands: stands, goesOn: goesOn, once: once, gone: gone}
	})
	return p
}

// A member that stands still in its first restore has been told that the group has committed
// nothing. By the time it goes on, another one has published and committed.
func TestAMemberThatStoodStillInItsFirstRestoreSeesNoLostCommit(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		stands, goesOn, heard, gone := make(chan struct{}), make(chan struct{}), make(chan struct{}), 0
		var mu sync.Mutex
		a := w.memberLate("a", stands, goesOn, func() { mu.Lock(); gone++; mu.Unlock() })
		<-stands
		// Of all that it does when it goes on, it is the last that it hears of the group.
		instance := w.cfg.GroupName("detector") + ".a"
		w.answers(kmsg.Heartbeat, func(request kmsg.Request) kmsg.Response {
			if id := request.(*kmsg.HeartbeatRequest).InstanceID; id != nil && *id == instance {
				w.kafka.Cluster().SleepControl(func() { <-heard })
			}
			return nil
		})

		stop, _ := w.joined("b", 1)
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })

		close(goesOn)
		time.Sleep(2 * time.Second)
		close(heard)
		must.Do(w, stop())
		w.has("a has the partition", a, 1)
		w.beat(0, "x")
		w.until("copied by a", 10*time.Second, func() bool { return w.counts()["x"] == 2 })
		mu.Lock()
		defer mu.Unlock()
		if gone != 0 {
			w.Errorf("a is told %d times that the group's commit is gone", gone)
		}
	})
}

// Somebody who deletes the group's offsets takes the commit away: that is told.
func TestAMemberSeesALostCommit(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		stop, _ := w.joined("b", 1)
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })
		must.Do(w, stop())
		deleteGroup(w)
		stands, goesOn, gone := make(chan struct{}), make(chan struct{}), 0
		var mu sync.Mutex
		close(goesOn)
		a := w.memberLate("a", stands, goesOn, func() { mu.Lock(); gone++; mu.Unlock() })
		w.has("a has the partition", a, 1)
		mu.Lock()
		defer mu.Unlock()
		if gone != 1 {
			w.Errorf("a is told %d times that the group's commit is gone", gone)
		}
	})
}

// deleteGroup deletes what the group has committed, once its members are gone.
func deleteGroup(w *world) {
	w.Helper()
	admin := w.admin()
	defer admin.Close()
	w.until("the group is deleted", time.Minute, func() bool {
		answers, err := admin.DeleteGroups(w.Context(), w.cfg.GroupName("detector"))
		return err == nil && answers.Error() == nil
	})
}
