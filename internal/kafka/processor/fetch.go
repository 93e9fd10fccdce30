package processor

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
)

// collect adds what was polled to s.batches, behind the rest of partitions that this session still
// has, and returns an error if fetching cannot go on.
func (s *session) collect(fetches kgo.Fetches) error {
	s.batches = slices.DeleteFunc(s.batches, func(b batch) bool { return s.Part(b.part.ID) != b.part })
	var fatal error
	fail := func(err error) {
		if fatal == nil {
			fatal = err
		}
	}
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Err != nil {
			fail(s.fetchError(f))
		}
		if f.Topic != s.Name || len(f.Records) == 0 {
			return
		}
		p := s.Part(f.Partition)
		if p == nil {
			// The client guarantees otherwise. What this session does not own it must not commit.
			fail(kafka.SessionErrorf("fetch", "records of %s partition %d came, which is not assigned", f.Topic, f.Partition))
			return
		}
		if !p.fetching {
			return // its task failed; they are read again
		}
		p.Fetched(f.HighWatermark)
		if i := slices.IndexFunc(s.batches, func(b batch) bool { return b.part == p }); i >= 0 {
			s.batches[i].records = append(slices.Clip(s.batches[i].records), f.Records...)
		} else {
			s.batches = append(s.batches, batch{part: p, records: f.Records})
		}
	})
	return fatal
}

func (s *session) fetchError(f kgo.FetchTopicPartition) error {
	return s.FetchError(f.Topic, f.Partition, f.Err, func(loss *kgo.ErrDataLoss) error {
		if p := s.Part(f.Partition); p != nil && loss.ResetTo < p.Next.Load() {
			return kafka.SessionErrorf("log_cut", "the log was truncated while it was read: %w", f.Err)
		}
		return nil
	}, func(err error) error {
		return kafka.SessionErrorf("lost", "the group removed this member: %w", s.withGrantHints(err))
	})
}
