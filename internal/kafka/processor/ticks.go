package processor

import (
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// tickFrame is the same at all times.
var tickFrame = schemas.AppendTick(nil)

// tick appends a tick to every partition that runs, every Config.TickInterval if it keeps up.
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
			if p.Phase.Load() == kafka.Running {
				p.appendTick()
			}
		}
	}
}

// tickBehind is how often a tick comes while a partition does not keep up: so rarely that the log says so; see
// detector/DESIGN.md, Leases.
const tickBehind = 10 * time.Second

// appendTick appends a tick, unless one is being appended, or too early for a partition that does not keep up.
func (p *partition) appendTick() {
	if !p.ticking.CompareAndSwap(false, true) {
		return
	}
	now := time.Now()
	if now.Sub(p.tickedAt) < tickBehind && !p.Status().KeepsUp(now) {
		p.ticking.Store(false)
		return
	}
	p.tickedAt = now
	out := schemas.Outgoing{Topic: p.s.Topic, Partition: p.ID, Value: tickFrame}
	p.s.Producer.Append(p.s.Ctx, out, func(err error) {
		p.ticking.Store(false)
		outcome := "appended"
		if err != nil {
			outcome = "failed"
		}
		p.s.Metrics.TickAppended(outcome)
	})
}
