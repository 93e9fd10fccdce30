package processor

import (
	"context"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// watch ends the session when a partition makes no progress although Kafka
// answers. Ticks see to it that there is something to handle in every partition
// of the heartbeats; other inputs may be idle. As long as records of the open
// transaction are being acknowledged, all wait for that with good reason: what one
// record leads to has no bound but the number of users. Nor does a restart go on with the
// same work for ever; see stalled.
func (s *session) watch() {
	every := s.proc.cfg.StallTimeout / 10
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
			s.resetProgress()
		}
		if s.joined() {
			joinedAt = time.Now()
		}
		if time.Since(lookedAt) > s.hangingCheckInterval() {
			lookedAt = time.Now()
			n, err := s.countHanging()
			if err != nil {
				lookedAt = time.Time{} // it is asked again at the next look
				s.proc.log.Debug("looking for hanging transactions failed; it is retried", "error", err)
			}
			if n > 0 {
				s.fail(kafka.SessionErrorf("hanging", "Kafka has left transactions of ours open in %d partitions", n))
				continue
			}
		}
		stalled, since := s.stalled()
		if out := time.Since(joinedAt); stalled == nil && out > s.proc.cfg.StallTimeout+s.proc.cfg.RebalanceTimeout {
			since = out
		}
		if since == 0 {
			continue
		}
		if err := s.reachable(); err != nil {
			s.proc.metrics.Stalled("unreachable")
			s.proc.log.Error("Kafka does not answer; waiting for it", "brokers", s.proc.cfg.Brokers, "silent_for", since.Round(time.Second), "error", err)
			s.resetProgress()
			joinedAt = time.Now()
			continue
		}
		s.proc.metrics.Stalled("restart")
		if stalled != nil && stalled.handling.Load() >= 0 {
			s.proc.countStall(stalled.id, stalled.handling.Load(), stalled.callsServers.Load())
		}
		if stalled == nil {
			s.fail(kafka.SessionErrorf("stall", "Kafka answers, but the group has not let us in for %s", since.Round(time.Second)))
		} else {
			s.fail(kafka.SessionErrorf("stall", "Kafka answers, but %s (%s) has made no progress at offset %d for %s",
				stalled, stalled.phase.Load(), stalled.next.Load(), since.Round(time.Second)))
		}
		s.cancel()
		return
	}
}

// maxStallDoublings bounds the time given to a record, to sixteen times the first.
const maxStallDoublings = 4

// stalled is a partition that has made no progress for too long, if there is
// one, and how long. What a record takes is bounded by what is in it, but how long that is on
// this machine nobody knows: at each restart the same record is given twice the time,
// and when that was not enough Config.MaxFailures times, its partition is parked, unless the
// task asks servers besides Kafka. It is never left out.
func (s *session) stalled() (*partition, time.Duration) {
	now, all := time.Now(), s.assigned()
	// The loop waits for all that have something in hand, and the others for the loop.
	working := slices.ContainsFunc(all, func(p *partition) bool { return p.handling.Load() >= 0 })
	for _, p := range all {
		limit := s.proc.cfg.StallTimeout
		switch p.phase.Load() {
		case kafka.Parked:
			continue
		case kafka.Restoring:
			// A dead member's transaction may have to time out first.
			limit *= 3
		case kafka.Running:
			if at := p.handling.Load(); at >= 0 {
				limit <<= min(s.proc.stallsAt(p.id, at), maxStallDoublings)
			} else if working || s.proc.input != schemas.Heartbeats && p.next.Load() >= p.end.Load() {
				continue
			}
		}
		if idle := now.Sub(time.Unix(0, p.progress.Load())); idle > limit {
			return p, idle
		}
	}
	return nil, 0
}

// resetProgress gives every partition its time again.
func (s *session) resetProgress() {
	for _, p := range s.assigned() {
		p.noteProgress()
	}
}

func (s *session) reachable() error {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	return s.proc.reader.Client.Ping(ctx)
}
