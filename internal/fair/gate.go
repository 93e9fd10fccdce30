package fair

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBusy says that a request got no slot in time.
var ErrBusy = errors.New("the server has more requests than it manages")

// Gate bounds the requests at work. While it is not full, it costs an atomic operation. Requests above
// the bound wait, and enter in turns of their tenants, which are charged the time that their requests
// take. When too many wait, the newest of the tenant with most waiting requests is refused. Any goroutine
// may use it.
type Gate struct {
	config GateConfig
	state  atomic.Uint64 // waiting<<32 + at work

	mu    sync.Mutex // protects turns
	turns *Turns[*waiter]
}

// GateConfig are the bounds of a Gate.
type GateConfig struct {
	// AtWork is how many requests may be at work.
	AtWork int
	// Waiting is how many more may wait.
	Waiting int
	// Wait is how long a request waits at most.
	Wait time.Duration
	// Weight is the share of each tenant; nil: all are equal.
	Weight Weight
}

// waiter is a request that waits.
type waiter struct {
	ready  chan struct{} // closed when the request may enter or is refused
	result error         // set before
	out    bool          // guarded by Gate.mu: it does not wait any more
}

const (
	oneAtWork  = uint64(1)
	oneWaiting = uint64(1) << 32
	// turnOfWork is how many microseconds of work a tenant has in a turn.
	turnOfWork = 1_000
)

// NewGate makes a Gate.
func NewGate(config GateConfig) *Gate {
	return &Gate{config: config, turns: NewTurns[*waiter](turnOfWork, config.Weight)}
}

// Enter waits for a slot. The error is ErrBusy, or that of ctx when it ends before. After nil the caller
// calls Leave, or TryLeave, once.
func (g *Gate) Enter(ctx context.Context, tenant string) error {
	if g.TryEnter() {
		return nil
	}
	g.mu.Lock()
	w := &waiter{ready: make(chan struct{})}
	g.turns.Push(tenant, w)
	if !g.await() {
		// A slot became free since.
		g.turns.Remove(tenant, func(other *waiter) bool { return other == w })
		g.mu.Unlock()
		return nil
	}
	if g.turns.Len() > g.config.Waiting {
		_, newest, _ := g.turns.DropLast()
		g.settle(newest, ErrBusy)
	}
	g.mu.Unlock()
	timer := time.NewTimer(g.config.Wait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return w.result
	case <-timer.C:
		return g.giveUp(tenant, w, ErrBusy)
	case <-ctx.Done():
		return g.giveUp(tenant, w, ctx.Err())
	}
}

// TryLeave is Leave if nobody waits, so that nobody needs to know the tenant.
func (g *Gate) TryLeave() bool {
	for {
		state := g.state.Load()
		if state >= oneWaiting {
			return false
		}
		if g.state.CompareAndSwap(state, state-oneAtWork) {
			return true
		}
	}
}

// Leave ends a request that took so long.
func (g *Gate) Leave(tenant string, took time.Duration) {
	if g.TryLeave() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turns.Charge(tenant, int(took.Microseconds()))
	if _, next, ok := g.turns.Next(1); ok {
		g.settle(next, nil) // it has the slot
		return
	}
	g.state.Add(^(oneAtWork - 1))
}

// Waiting is how many requests wait.
func (g *Gate) Waiting() int { return int(g.state.Load() / oneWaiting) }

// TryEnter takes a slot if one is free and nobody waits.
func (g *Gate) TryEnter() bool {
	for {
		state := g.state.Load()
		if state >= uint64(g.config.AtWork) { // or somebody waits
			return false
		}
		if g.state.CompareAndSwap(state, state+oneAtWork) {
			return true
		}
	}
}

// await counts a waiter, unless it got a slot that became free. Called under mu.
func (g *Gate) await() bool {
	for {
		state := g.state.Load()
		if state < uint64(g.config.AtWork) {
			if g.state.CompareAndSwap(state, state+oneAtWork) {
				return false
			}
			continue
		}
		if g.state.CompareAndSwap(state, state+oneWaiting) {
			return true
		}
	}
}

// settle ends the wait of a waiter that is not in turns any more. Called under mu.
func (g *Gate) settle(w *waiter, result error) {
	w.result, w.out = result, true
	g.state.Add(^(oneWaiting - 1))
	close(w.ready)
}

// giveUp ends the wait of a waiter unless it was settled meanwhile.
func (g *Gate) giveUp(tenant string, w *waiter, reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.out {
		return w.result
	}
	g.turns.Remove(tenant, func(other *waiter) bool { return other == w })
	g.settle(w, reason)
	return reason
}
