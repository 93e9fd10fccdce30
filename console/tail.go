package console

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

const (
	// idleAfter is how long a tail goes on reading that nobody uses.
	idleAfter = time.Minute
	// failedFor is how long a failure stands before the topic is read again.
	failedFor = 5 * time.Second
)

// tail reads a topic while somebody uses what is read. Any goroutine may use it.
type tail struct {
	// name is what is read, for logs.
	name string
	// read reads until ctx ends. It calls loaded when everything has been read that there was when it
	// began.
	read func(ctx context.Context, loaded func()) error
	// reset forgets what was read.
	reset func()
	used  chan struct{} // capacity 1

	mu     sync.Mutex
	done   chan struct{} // closed when loaded or failed; replaced by reset
	loaded bool
	err    error // of the newest read; nil while one runs
}

func newTail(name string, read func(context.Context, func()) error, reset func()) *tail {
	return &tail{name: name, read: read, reset: reset, used: make(chan struct{}, 1), done: make(chan struct{})}
}

// touch says that the tail is used now.
func (t *tail) touch() {
	select {
	case t.used <- struct{}{}:
	default:
	}
}

// await waits until everything is read that there was, or the read has failed, at most for a time. It
// reports whether everything is, and why the read failed.
func (t *tail) await(ctx context.Context, most time.Duration) (loaded bool, err error) {
	t.touch()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	t.mu.Lock()
	done := t.done
	t.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loaded, t.err
}

// settle says how a read goes: loaded, or failed.
func (t *tail) settle(loaded bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded, t.err = loaded, err
	select {
	case <-t.done:
	default:
		close(t.done)
	}
}

// run reads whenever the tail is used, until ctx ends.
func (t *tail) run(ctx context.Context, log *slog.Logger) {
	logged := "" // the error that was logged last; the same one is not logged again
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.used:
		}
		err := t.once(ctx)
		t.reset()
		if err != nil {
			t.settle(false, err)
			if text := err.Error(); text != logged {
				log.Warn("the console cannot read a topic", "what", t.name, "error", err)
				logged = text
			}
			kafka.Pause(ctx, failedFor)
		}
		t.mu.Lock()
		t.loaded, t.err, t.done = false, nil, make(chan struct{})
		t.mu.Unlock()
	}
}

// once reads until nobody uses what is read any more.
func (t *tail) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- t.read(ctx, func() { t.settle(true, nil) }) }()
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	for {
		select {
		case <-t.used:
			idle.Reset(idleAfter)
		case <-idle.C:
			cancel()
			<-ended //nolint:errcheck // it was told to end
			return nil
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}
