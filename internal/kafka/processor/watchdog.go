package processor

import (
	"context"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor/hanging"
	"github.com/stillhere/stillhere/schemas"
)

// watch ends the session when a partition makes no progress although Kafka answers, and when a
// transaction of this process hangs. Ticks give every partition of the heartbeats something to
// handle; other inputs may be idle. While records of the open transaction are being acknowledged,
// no partition counts as stalled: the output of one record is bounded only by the number of users.
func (s *session) watch() {
	every := s.Config.StallTimeout / 10
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	joinedAt, written := time.Now(), int64(0)
	lookedAt := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-s.Ctx.Done():
			return
		}
		if now := s.written.Load(); now != written {
			written = now
			s.resetProgress()
		}
		if s.Joined() {
			joinedAt = time.Now()
		}
		if time.Since(lookedAt) > s.hangingAge() {
			lookedAt = time.Now()
			n, err := s.countHanging()
			if err != nil {
				lookedAt = time.Time{} // asked again at the next tick
				s.Log.Debug("looking for hanging transactions failed; it is retried", "error", err)
			}
			if n > 0 {
				s.Fail(kafka.SessionErrorf("hanging", "Kafka has left transactions of ours open in %d partitions", n))
				continue
			}
		}
		stalled, since := s.stalled()
		if out := time.Since(joinedAt); stalled == nil && out > s.Config.StallTimeout+s.Config.RebalanceTimeout {
			since = out
		}
		if since == 0 {
			continue
		}
		if err := s.reachable(); err != nil {
			s.Metrics.Stalled("unreachable")
			s.Log.Error("Kafka does not answer; waiting for it",
				"brokers", s.Config.Brokers, "silent_for", since.Round(time.Second), "error", err)
			s.resetProgress()
			joinedAt = time.Now()
			continue
		}
		s.Metrics.Stalled("restart")
		if stalled != nil && stalled.handling.Load() >= 0 {
			s.proc.failures.stall(stalled.ID, stalled.handling.Load(), stalled.callsServers.Load())
		}
		if stalled == nil {
			s.Fail(kafka.SessionErrorf("stall",
				"Kafka answers, but the group has not accepted this member for %s", since.Round(time.Second)))
		} else {
			s.Fail(kafka.SessionErrorf("stall", "Kafka answers, but %s (%s) has made no progress at offset %d for %s",
				stalled, stalled.Phase.Load(), stalled.Next.Load(), since.Round(time.Second)))
		}
		s.Cancel()
		return
	}
}

// maxStallDoublings bounds the time given to a record, to sixteen times the first.
const maxStallDoublings = 4

// stalled returns a partition that has made no progress for too long, if there is one, and for how
// long. The same record gets twice the time at each restart, because the work for it is bounded but
// the speed of the machine is unknown. After Config.MaxFailures stalls its partition is parked,
// unless the task calls servers besides Kafka. The record is never skipped.
func (s *session) stalled() (*partition, time.Duration) {
	now, all := time.Now(), s.Parts()
	// The loop waits for the partitions that handle records, and the other partitions for the loop.
	working := slices.ContainsFunc(all, func(p *partition) bool { return p.handling.Load() >= 0 })
	for _, p := range all {
		limit := s.Config.StallTimeout
		switch p.Phase.Load() {
		case kafka.Parked:
			continue
		case kafka.Restoring:
			// The transaction of a dead member may have to time out first.
			limit *= 3
		case kafka.Running:
			at := p.handling.Load()
			if at >= 0 && at != p.watched {
				p.watched = at
				p.noteProgress()
			}
			if at >= 0 {
				limit <<= min(s.proc.failures.stallsAt(p.ID, at), maxStallDoublings)
			} else if working || s.Topic != schemas.Heartbeats && p.Next.Load() >= p.End.Load() {
				continue
			}
		}
		if idle := now.Sub(time.Unix(0, p.progress.Load())); idle > limit {
			return p, idle
		}
	}
	return nil, 0
}

// resetProgress starts the time of every partition again.
func (s *session) resetProgress() {
	for _, p := range s.Parts() {
		p.noteProgress()
	}
}

func (s *session) reachable() error {
	ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Second)
	defer cancel()
	return s.Reader.Client.Ping(ctx)
}

// lastEpochs is where the epochs of a producer id begin to run out. Then the producer gets another
// id, and only an operator can end what hangs under the one before. At 100 transactions a second that
// is every five minutes, and a minute is left from here.
const lastEpochs = 27_000

// hangingAge is how long a transaction of this session may seem open before it counts as hanging,
// and how often the watchdog looks for one.
func (s *session) hangingAge() time.Duration {
	if s.epoch.Load() < lastEpochs {
		return hanging.Age
	}
	return min(2*s.proc.transactionTimeout(), hanging.Age)
}

// countHanging is in how many partitions a transaction of this session hangs. The next session ends
// them.
func (s *session) countHanging() (int, error) {
	ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Second)
	defer cancel()
	producer, _, err := s.Client.ProducerID(ctx)
	if err != nil {
		return 0, err
	}
	return s.hanging().Count(ctx, producer, s.hangingAge())
}
