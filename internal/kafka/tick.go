package kafka

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// tickFrame is the same at all times.
var tickFrame = schemas.AppendTick(nil)

// tick appends a tick to every partition that runs, again and again. While one
// is on its way the next is left out: more of them would tell nothing more.
func (s *session) tick() {
	if s.t.input != schemas.Heartbeats {
		return
	}
	ticker := time.NewTicker(s.t.cfg.TickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		for _, p := range s.each() {
			if p.phase.Load() != Running || !p.ticking.CompareAndSwap(false, true) {
				continue
			}
			out := schemas.Outgoing{Topic: s.t.input, Partition: p.id, Value: tickFrame}
			s.t.producer.Append(s.ctx, out, func(err error) {
				p.ticking.Store(false)
				outcome := "appended"
				if err != nil {
					outcome = "failed"
				}
				s.t.metrics.tick(outcome)
			})
		}
	}
}
