package console

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reads counts the reads of a tail.
type reads struct {
	begun, ended, resets atomic.Int32
	mu                   sync.Mutex
	err                  error
}

// fault is the error of the next read, after it is set if set.
func (r *reads) fault(err error, set bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set {
		r.err = err
	}
	return r.err
}

// tailed runs a tail of r until the returned function is called.
func tailed(t *testing.T, r *reads) (*tail, func()) {
	one := newTail("test", func(ctx context.Context, loaded func()) error {
		r.begun.Add(1)
		defer func() { r.ended.Add(1) }()
		if err := r.fault(nil, false); err != nil {
			return err
		}
		time.Sleep(time.Second) // of virtual time: reading what there is
		loaded()
		<-ctx.Done()
		return nil
	}, func() { r.resets.Add(1) })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { one.run(ctx, slog.New(slog.DiscardHandler)) })
	return one, func() { cancel(); running.Wait() }
}

func TestATopicIsReadWhileSomebodyUsesItAndAMinuteLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reads
		one, stop := tailed(t, &r)
		time.Sleep(time.Hour)
		if r.begun.Load() != 0 {
			t.Fatal("it is read before anybody uses it")
		}
		if loaded, err := one.await(t.Context(), 500*time.Millisecond); loaded || err != nil {
			t.Errorf("half a second later it is loaded: %v, %v", loaded, err)
		}
		if loaded, err := one.await(t.Context(), time.Minute); !loaded || err != nil {
			t.Errorf("a second later it is loaded: %v, %v", loaded, err)
		}
		for range 60 {
			time.Sleep(idleAfter - time.Second)
			one.touch()
		}
		if r.ended.Load() != 0 {
			t.Error("it is not read any more, though somebody uses it")
		}
		time.Sleep(idleAfter - time.Second)
		if r.ended.Load() != 0 {
			t.Error("it is not read any more within a minute")
		}
		time.Sleep(2 * time.Second)
		if r.ended.Load() != 1 || r.resets.Load() != 1 {
			t.Error("after that it is still read")
		}
		if loaded, _ := one.await(t.Context(), 2*time.Second); !loaded || r.begun.Load() != 2 {
			t.Errorf("it is read again: %v, %d times", loaded, r.begun.Load())
		}
		stop()
		if r.ended.Load() != 2 {
			t.Error("it is read on at the end")
		}
	})
}

func TestATopicThatCannotBeReadIsTriedAgainWhenItIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reads
		fault := r.fault(errors.New("no right"), true)
		one, stop := tailed(t, &r)
		defer stop()
		if loaded, err := one.await(t.Context(), time.Minute); loaded || err != fault { //nolint:errorlint // the very same
			t.Errorf("%v, %v", loaded, err)
		}
		time.Sleep(2 * failedFor)
		_ = r.fault(nil, true)
		time.Sleep(2 * failedFor)
		if loaded, err := one.await(t.Context(), 2*failedFor); !loaded || err != nil {
			t.Errorf("later %v, %v", loaded, err)
		}
	})
}
