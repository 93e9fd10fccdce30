package processor

import (
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// tickFrame is the same at all times.
var tickFrame = schemas.AppendTick(nil)

// tick appends a tick to every partition that runs, again and again. While one
// is on its way the next is left out: more of them would tell nothing more.
func (s *session) tick() {
	if s.proc.input != schemas.Heartbeats {
		return
	}
	ticker := time.NewTicker(s.proc.cfg.TickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		for _, p := range s.assigned() {
			if p.phase.Load() != kafka.Running || !p.ticking.CompareAndSwap(false, true) {
				continue
			}
			out := schemas.Outgoing{Topic: s.proc.input, Partition: p.id, Value: tickFrame}
			s.proc.producer.Append(s.ctx, out, func(err error) {
				p.ticking.Store(false)
				outcome := "appended"
				if err != nil {
					outcome = "failed"
				}
				s.proc.metrics.TickAppended(outcome)
			})
		}
	}
}
