package processor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
)

// collect puts what was polled into s.batches, behind what was left there of partitions
// that are still ours, and deals with what went wrong in fetching.
func (s *session) collect(fetches kgo.Fetches) error {
	s.batches = slices.DeleteFunc(s.batches, func(b batch) bool { return s.part(b.part.id) != b.part })
	var fatal error
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Err != nil {
			if err := s.classifyFetchError(f.Topic, f.Partition, f.Err); err != nil && fatal == nil {
				fatal = err
			}
		}
		if f.Topic != s.name || len(f.Records) == 0 {
			return
		}
		p := s.part(f.Partition)
		if p == nil {
			// The client guarantees otherwise; what we do not own we must not commit.
			if fatal == nil {
				fatal = kafka.SessionErrorf("fetch", "records of %s partition %d came, which is not assigned", f.Topic, f.Partition)
			}
			return
		}
		if !p.fetching {
			return // its task failed; it will be read again
		}
		if p.phase.Load() == kafka.Running && p.next.Load() >= p.end.Load() {
			p.behindSince.Store(time.Now().UnixMilli())
		}
		p.end.Store(f.HighWatermark)
		for i := range s.batches {
			if s.batches[i].part == p {
				s.batches[i].records = append(s.batches[i].records[:len(s.batches[i].records):len(s.batches[i].records)], f.Records...)
				return
			}
		}
		s.batches = append(s.batches, batch{part: p, records: f.Records})
	})
	return fatal
}

// classifyFetchError tells what an error in a fetch means; nil: go on.
func (s *session) classifyFetchError(topic string, partition int32, err error) error {
	var tooLarge *kgo.ErrDecompressTooLarge
	var loss *kgo.ErrDataLoss
	var group *kgo.ErrGroupSession
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.As(err, &tooLarge):
		s.proc.metrics.BatchSkipped()
		s.proc.log.Error("skipped a batch that exceeds the maximum batch size", "topic", topic, "partition", partition,
			"offset", tooLarge.Offset, "next", tooLarge.NextOffset)
		s.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: tooLarge.Epoch, Offset: tooLarge.NextOffset}}})
		return nil
	case errors.As(err, &loss):
		if p := s.part(partition); p != nil && loss.ResetTo < p.next.Load() {
			return kafka.SessionErrorf("log_cut", "the log was truncated while it was read: %w", err)
		}
		s.proc.log.Error("records were lost before they were read", "topic", topic, "partition", partition, "error", err)
		return nil
	case errors.As(err, &group):
		return kafka.SessionErrorf("lost", "the group removed this member: %w", s.withGrantHints(err))
	case errors.Is(err, kgo.ErrClientClosed):
		return kafka.SessionErrorf("closed", "the client was closed: %w", err)
	case errors.Is(err, kerr.UnknownTopicID):
		// The client would stay with the topic that is gone.
		return kafka.SessionErrorf("fetch", "reading %s partition %d: was it deleted and recreated? %w", topic, partition, err)
	case kafka.Retriable(err):
		// The client tries again by itself; the watchdog sees to it if it is for ever.
		s.proc.log.Warn("fetching failed; the client retries", "topic", topic, "partition", partition, "error", err)
		return nil
	}
	return kafka.SessionErrorf("fetch", "fetching %s partition %d: %w", topic, partition, kafka.WithGrantHint(err, "Read", kafka.OfTopic, topic))
}
