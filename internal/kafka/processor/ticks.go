package processor

import (
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Ticks are the same at all times.
var tickOnTime, tickBehind = schemas.AppendTick(nil), schemas.AppendTickBehind(nil)

// roundTrip is how long ticks take until they are handled, by the clock of this process alone. Any goroutine may use
// it.
type roundTrip struct {
	mu     sync.Mutex    // protects what follows
	begun  time.Time     // when the tick under way was appended; zero: none is
	offset int64         // of it
	took   time.Duration // the last one
	known  bool
	task   bool      // what the task says
	last   time.Time // when the last tick was begun
	due    time.Time // when the task has work without other records
}

// appended notes that a tick which was begun then is in the log, and that all before next is handled.
func (r *roundTrip) appended(begun time.Time, offset, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last = begun; r.begun.IsZero() {
		r.begun, r.offset = begun, offset
	}
	r.handledTo(next)
}

// handled notes that all before next is handled, and what the task says of keeping up and of its next work.
func (r *roundTrip) handled(next int64, task bool, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task, r.due = task, due
	r.handledTo(next)
}

// quietTick is how long a partition in which nothing is due goes without a tick.
const quietTick = time.Second

// wantsTick reports whether a tick has to be appended now, and not an interval later.
func (r *roundTrip) wantsTick(interval time.Duration) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.due.After(now) || now.Sub(r.last)+interval/2 >= quietTick
}

func (r *roundTrip) handledTo(next int64) {
	if !r.begun.IsZero() && next > r.offset {
		r.begun, r.took, r.known = time.Time{}, time.Since(r.begun), true
	}
}

// keepsUp reports whether the partition read its last tick within kafka.ReadyLag.
func (r *roundTrip) keepsUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task && r.known && r.took < kafka.ReadyLag && (r.begun.IsZero() || time.Since(r.begun) < kafka.ReadyLag)
}

// tick appends a tick to every partition that runs, every Config.TickInterval, where nothing is due every quietTick.
func (s *session) tick() {
	if s.Topic != schemas.Heartbeats {
		return
	}
	ticker := time.NewTicker(s.Config.TickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.Ctx.Done():
			return
		}
		for _, p := range s.Parts() {
			if p.Phase.Load() == kafka.Running && p.ticks.wantsTick(s.Config.TickInterval) {
				p.appendTick()
			}
		}
	}
}

// appendTick appends a tick, unless one is being appended.
func (p *partition) appendTick() {
	if !p.ticking.CompareAndSwap(false, true) {
		return
	}
	out := schemas.Outgoing{Topic: p.s.Topic, Partition: p.ID, Value: tickBehind}
	if p.ticks.keepsUp() {
		out.Value = tickOnTime
	}
	begun := time.Now()
	p.s.Producer.AppendAt(p.s.Ctx, out, func(offset int64, err error) {
		outcome := "failed"
		if err == nil {
			outcome = "appended"
			p.ticks.appended(begun, offset, p.Next.Load())
		}
		p.ticking.Store(false)
		p.s.Metrics.TickAppended(outcome)
	})
}
