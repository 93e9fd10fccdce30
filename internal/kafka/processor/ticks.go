package processor

import (
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// tickFrame is the same at all times.
var tickFrame = schemas.AppendTick(nil)

// tick appends a tick to every partition that runs, every Config.TickInterval. While one is being
// appended the next is left out.
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
			if p.Phase.Load() != kafka.Running || !p.ticking.CompareAndSwap(false, true) {
				continue
			}
			out := schemas.Outgoing{Topic: s.Topic, Partition: p.ID, Value: tickFrame}
			s.Producer.Append(s.Ctx, out, func(err error) {
				p.ticking.Store(false)
				outcome := "appended"
				if err != nil {
					outcome = "failed"
				}
				s.Metrics.TickAppended(outcome)
			})
		}
	}
}
