package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicMetadata is the id of a topic and the leaders of its partitions.
type TopicMetadata struct {
	ID      [16]byte
	Leaders []int32 // by partition
}

// IsMissingTopic reports whether err says that a topic does not exist.
func IsMissingTopic(err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) }

// DescribeTopic looks up a topic on which the caller wants to perform operation: every operation
// includes the permission to describe, so the error names operation as the missing ACL.
func DescribeTopic(ctx context.Context, client *kgo.Client, name, operation string) (TopicMetadata, error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return TopicMetadata{}, fmt.Errorf("asking about topic %s: %w", name, ExplainConnection(err))
	}
	for _, t := range response.Topics {
		if t.Topic == nil || *t.Topic != name {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return TopicMetadata{}, fmt.Errorf("asking about topic %s: %w", name, WithGrantHint(err, operation, OfTopic, name))
		}
		meta := TopicMetadata{ID: t.TopicID, Leaders: make([]int32, len(t.Partitions))}
		for _, p := range t.Partitions {
			if p.Partition < 0 || int(p.Partition) >= len(meta.Leaders) {
				return TopicMetadata{}, fmt.Errorf("asking about topic %s: partitions are not numbered from 0", name)
			}
			meta.Leaders[p.Partition] = p.Leader
		}
		return meta, nil
	}
	return TopicMetadata{}, fmt.Errorf("asking about topic %s: %w", name, kerr.UnknownTopicOrPartition)
}

// PartitionCount looks up how many partitions a topic has; see DescribeTopic.
func PartitionCount(ctx context.Context, client *kgo.Client, name, operation string) (int32, error) {
	meta, err := DescribeTopic(ctx, client, name, operation)
	return int32(len(meta.Leaders)), err
}

// Timestamps of a ListOffsets request that stand for the start and the end.
const (
	AtStart = int64(-2)
	AtEnd   = int64(-1)
)

// listOffset looks up the offset of one partition at a timestamp, AtStart or AtEnd. It retries
// until ctx ends.
func listOffset(ctx context.Context, client *kgo.Client, name string, partition int32, at int64) (int64, error) {
	for tries := 1; ; tries++ {
		offsets, err := ListOffsets(ctx, client, name, []int32{partition}, at)
		if err == nil {
			return offsets[partition], nil
		}
		if !Retriable(err) || !Pause(ctx, Backoff(tries)) {
			return 0, err
		}
	}
}

// ListOffsets looks up the offsets of partitions at a timestamp, AtStart or AtEnd.
func ListOffsets(ctx context.Context, client *kgo.Client, name string, partitions []int32, at int64) (map[int32]int64,
	error) {
	return listOffsetsAs(ctx, client, name, partitions, at, 0)
}

// readCommitted is the isolation level at which a partition ends before its first open transaction.
const readCommitted = int8(1)

func listOffsetsAs(ctx context.Context, client *kgo.Client, name string, partitions []int32, at int64,
	isolation int8) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.IsolationLevel = isolation
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = name
	for _, id := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = id, at
		topic.Partitions = append(topic.Partitions, part)
	}
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("asking for the bounds of %s: %w", name, WithGrantHint(err, "Read", OfTopic, name))
	}
	offsets := map[int32]int64{}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("asking for the bounds of %s partition %d: %w", name, p.Partition,
					WithGrantHint(err, "Read", OfTopic, name))
			}
			offsets[p.Partition] = p.Offset
		}
	}
	if len(offsets) != len(partitions) {
		return nil, fmt.Errorf("asking for the bounds of %s: %w", name, errNoAnswer)
	}
	return offsets, nil
}

// FetchCommitted is Reader.Commits by a client, for a topic's full name.
func FetchCommitted(ctx context.Context, client *kgo.Client, group, name string, partitions []int32,
	settled bool) (map[int32]CommittedOffset, error) {
	meta, err := DescribeTopic(ctx, client, name, "Describe")
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		for i := range meta.Leaders {
			partitions = append(partitions, int32(i))
		}
	}
	request := kmsg.NewPtrOffsetFetchRequest()
	request.RequireStable = settled
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.TopicID, topic.Partitions = name, meta.ID, partitions
	g.Topics = append(g.Topics, topic)
	request.Groups = append(request.Groups, g)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("asking what %s has committed: %w", group, WithGrantHint(err, "Describe", OfGroup, group))
	}
	all := map[int32]CommittedOffset{}
	for _, g := range response.Groups {
		if g.ErrorCode == kerr.GroupIDNotFound.Code {
			continue // it has committed nothing; other brokers answer with offsets of -1
		}
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("asking what %s has committed: %w", group, WithGrantHint(err, "Describe", OfGroup, group))
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("asking what %s has committed for %s partition %d: %w", group, name, p.Partition,
						WithGrantHint(err, "Describe", OfTopic, name))
				}
				if p.Offset >= 0 && p.Metadata != nil {
					all[p.Partition] = CommittedOffset{p.Offset, *p.Metadata}
				}
			}
		}
	}
	return all, nil
}
