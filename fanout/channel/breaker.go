package channel

import (
	"sync"
	"time"
)

const (
	// breaksAfter is how many tries in a row must fail before the circuit opens.
	breaksAfter = 5
	// firstPause is how long the circuit stays open at first; it doubles up to maxPause.
	firstPause, maxPause = time.Second, 30 * time.Second
)

// breaker keeps tries from a receiver that does not answer: after some failures in a row the circuit opens,
// and after each pause one try may show whether the receiver is back. Any goroutine may use it.
type breaker struct {
	mu      sync.Mutex // protects what is below
	failed  int        // in a row
	pause   time.Duration
	until   time.Time // the circuit is open until then; zero: it is closed
	probing bool
}

// enter reports whether a try may begin, or else how long to wait.
func (b *breaker) enter(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return 0, true
	case now.Before(b.until):
		return b.until.Sub(now), false
	case b.probing:
		return b.pause, false
	}
	b.probing = true
	return 0, true
}

// abandon ends a try that shows nothing.
func (b *breaker) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// isOpen reports whether the circuit is open.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.until.IsZero()
}

// leave says how a try that has entered ended. changed reports whether the circuit opened (or closed) by it.
func (b *breaker) leave(now time.Time, answered bool) (open, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := !b.until.IsZero()
	if answered {
		b.failed, b.pause, b.until, b.probing = 0, 0, time.Time{}, false
		return false, was
	}
	b.failed++
	switch {
	case b.probing:
		b.pause = min(2*b.pause, maxPause)
	case was: // a try that began before the circuit opened
		return true, false
	case b.failed < breaksAfter:
		return false, false
	default:
		b.pause = firstPause
	}
	b.until, b.probing = now.Add(b.pause), false
	return true, !was
}
