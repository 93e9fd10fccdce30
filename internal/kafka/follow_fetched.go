package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/schemas"
)

// hand gives what was fetched of a partition to its feed.
func (s *following[T]) hand(topic kgo.FetchTopic, p kgo.FetchPartition) error {
	var fatal error
	if p.Err != nil {
		fatal = s.judge(topic.Topic, p.Partition, p.Err)
	}
	feed := s.feed(p.Partition)
	if len(p.Records) == 0 || feed == nil {
		return fatal
	}
	if !feed.isOf(topic.TopicID) {
		// Where to start was asked of a broker that did not know the new topic yet, or knew it already.
		return broken("fetch", "following %s partition %d: it was deleted and made anew: the offset to go on from is one of another topic than %s",
			topic.Topic, p.Partition, schemas.TopicID(topic.TopicID))
	}
	feed.give(p.Records, p.HighWatermark)
	return fatal
}

func (s *following[T]) judge(topic string, partition int32, err error) error {
	var tooLarge *kgo.ErrDecompressTooLarge
	var loss *kgo.ErrDataLoss
	var group *kgo.ErrGroupSession
	switch {
	case errors.Is(err, context.Canceled): // woken
	case errors.As(err, &tooLarge):
		s.f.metrics.skippedBatch()
		s.f.log.Error("a batch is too large to be read and is skipped", "topic", topic, "partition", partition,
			"offset", tooLarge.Offset, "next", tooLarge.NextOffset)
		s.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: tooLarge.Epoch, Offset: tooLarge.NextOffset}}})
	case errors.As(err, &loss):
		s.f.metrics.gap()
		s.f.log.Error("records were lost", "topic", topic, "partition", partition, "error", err)
	case errors.Is(err, kerr.UnknownTopicID):
		// The client would stay with the topic that is gone.
		return broken("fetch", "following %s partition %d: was it deleted and made anew? %w", topic, partition, err)
	case errors.As(err, &group) && errors.Is(err, kerr.FencedInstanceID):
		// The client would try again at once and throw the other out.
		return broken("fenced", "another process has taken the instance name %s, or this one was thought dead: %w", s.f.cfg.InstanceName, err)
	case errors.As(err, &group), passing(err) && !errors.Is(err, kgo.ErrClientClosed):
		// The client goes on by itself.
		s.f.log.Warn("following", "topic", topic, "partition", partition, "error", needs(err, "Read", OfGroup, s.f.group))
	default:
		return broken("fetch", "fetching %s partition %d: %w", topic, partition, needs(err, "Read", OfTopic, topic))
	}
	return nil
}
