package stream

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// watch ends the session when a partition makes no progress although Kafka
// answers. Ticks see to it that there is something to handle in every partition
// of the heartbeats; other inputs may be idle. As long as records of the open
// transaction are being acknowledged, all wait for that with good reason: what one
// record leads to has no bound but the number of users.
func (s *session) watch() {
	every := s.t.cfg.StallTimeout / 10
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	joinedAt, written := time.Now(), int64(0)
	lookedAt := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		if now := s.written.Load(); now != written {
			written = now
			s.forgive()
		}
		if s.joined() {
			joinedAt = time.Now()
		}
		if time.Since(lookedAt) > s.lookAge() {
			lookedAt = time.Now()
			n, err := s.leftHanging()
			if err != nil {
				lookedAt = time.Time{} // it is asked again at the next look
				s.t.log.Debug("looking for hanging transactions", "error", err)
			}
			if n > 0 {
				s.fail(broken("hanging", "Kafka has left transactions of ours open in %d partitions", n))
				continue
			}
		}
		stalled, since := s.stalled()
		if out := time.Since(joinedAt); stalled == nil && out > s.t.cfg.StallTimeout+s.t.cfg.RebalanceTimeout {
			since = out
		}
		if since == 0 {
			continue
		}
		if err := s.reachable(); err != nil {
			s.t.metrics.stall("unreachable")
			s.t.log.Error("Kafka does not answer; waiting for it", "brokers", s.t.cfg.Brokers, "silent for", since.Round(time.Second), "error", err)
			s.forgive()
			joinedAt = time.Now()
			continue
		}
		s.t.metrics.stall("restart")
		if stalled == nil {
			s.fail(broken("stall", "Kafka answers, but the group has not let us in for %s", since.Round(time.Second)))
		} else {
			s.fail(broken("stall", "Kafka answers, but %s (%s) has made no progress at offset %d for %s",
				stalled, stalled.phase.Load(), stalled.next.Load(), since.Round(time.Second)))
		}
		s.cancel()
		return
	}
}

// stalled is a partition that has made no progress for too long, if there is
// one, and how long.
func (s *session) stalled() (*partition, time.Duration) {
	now := time.Now()
	for _, p := range s.each() {
		limit := s.t.cfg.StallTimeout
		switch p.phase.Load() {
		case Parked:
			continue
		case Restoring:
			// A dead member's transaction may have to time out first.
			limit *= 3
		case Running:
			if s.t.input != schemas.Heartbeats && p.next.Load() >= p.end.Load() {
				continue
			}
		}
		if idle := now.Sub(time.Unix(0, p.progress.Load())); idle > limit {
			return p, idle
		}
	}
	return nil, 0
}

// forgive gives every partition its time again.
func (s *session) forgive() {
	for _, p := range s.each() {
		p.touch()
	}
}

func (s *session) reachable() error {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	return s.t.reader.client.Ping(ctx)
}
