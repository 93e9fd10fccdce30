//go:build synctests

package looptest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// late is a copier whose first restore waits, as in a process that stands still, and then
// looks whether changes were published although the group has committed nothing.
type late struct {
	copier
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
func (w *world) memberLate(name string, cfg kafka.Config, stands, goesOn chan struct{}, gone func()) *processor.Processor {
	cfg.InstanceName = name
	once := new(sync.Once)
	t := processor.New(cfg, "detector", schemas.Heartbeats, func(partition int32) processor.Task {
		return &late{copier: copier{partition: partition, counts: map[string]int{}}, stands: stands, goesOn: goesOn, once: once, gone: gone}
	}, w.producer, w.log.With("member", name), w.metrics).Writes(schemas.Transitions, schemas.Statuses)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- t.Run(ctx) }()
	w.ends = append(w.ends, func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("member %s: %v", name, err)
		}
	})
	return t
}

// A member that stands still in its first restore has been told that the group has committed
// nothing. By the time it goes on, another one has published and committed.
func TestAMemberThatStoodStillInItsFirstRestoreSeesNoLostCommit(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		stands, goesOn, heard, gone := make(chan struct{}), make(chan struct{}), make(chan struct{}), 0
		var mu sync.Mutex
		a := w.memberLate("a", w.cfg, stands, goesOn, func() { mu.Lock(); gone++; mu.Unlock() })
		<-stands
		// Of all that it does when it goes on, it is the last that it hears of the group.
		cluster, instance := w.kafka.Cluster(), w.cfg.GroupName("detector")+".a"
		cluster.ControlKey(int16(kmsg.Heartbeat), func(request kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if id := request.(*kmsg.HeartbeatRequest).InstanceID; id != nil && *id == instance {
				cluster.SleepControl(func() { <-heard })
			}
			return nil, nil, false
		})

		stop, b := w.member("b")
		w.until("b has the partition", time.Minute, func() bool { return b.Ready() == nil && len(b.Status()) == 1 })
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })

		close(goesOn)
		time.Sleep(2 * time.Second)
		close(heard)
		must.Do(w, stop())
		w.until("a has the partition", time.Minute, func() bool { return a.Ready() == nil && len(a.Status()) == 1 })
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
		stop, b := w.member("b")
		w.until("b has the partition", time.Minute, func() bool { return b.Ready() == nil && len(b.Status()) == 1 })
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 })
		must.Do(w, stop())
		deleteGroup(w)
		stands, goesOn, gone := make(chan struct{}), make(chan struct{}), 0
		var mu sync.Mutex
		close(goesOn)
		a := w.memberLate("a", w.cfg, stands, goesOn, func() { mu.Lock(); gone++; mu.Unlock() })
		w.until("a has the partition", time.Minute, func() bool { return a.Ready() == nil && len(a.Status()) == 1 })
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
