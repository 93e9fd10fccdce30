package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicMetadata is what the cluster says of a topic.
type TopicMetadata struct {
	ID      [16]byte
	Leaders []int32 // by partition
}

// DescribeTopic asks about a topic with which somebody wants to do operation, which is
// for the error where that is not allowed: who may do it may ask as well.
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

func PartitionCount(ctx context.Context, client *kgo.Client, name, operation string) (int32, error) {
	meta, err := DescribeTopic(ctx, client, name, operation)
	return int32(len(meta.Leaders)), err
}

// Timestamps of a ListOffsets request that stand for places.
const (
	AtStart = int64(-2)
	AtEnd   = int64(-1)
)

// listOffset asks where a partition starts or ends.
func listOffset(ctx context.Context, client *kgo.Client, name string, partition int32, place int64) (int64, error) {
	for tries := 1; ; tries++ {
		offsets, err := ListOffsets(ctx, client, name, []int32{partition}, place)
		if err == nil {
			return offsets[partition], nil
		}
		if !Retriable(err) || !Pause(ctx, Backoff(tries)) {
			return 0, err
		}
	}
}

// ListOffsets asks where partitions start or end, once. All are in the answer.
func ListOffsets(ctx context.Context, client *kgo.Client, name string, partitions []int32, place int64) (map[int32]int64, error) {
	return listOffsetsAs(ctx, client, name, partitions, place, 0)
}

// readCommitted is the isolation level by which a partition ends before the first
// transaction that is open.
const readCommitted = int8(1)

func listOffsetsAs(ctx context.Context, client *kgo.Client, name string, partitions []int32, place int64, isolation int8) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.IsolationLevel = isolation
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = name
	for _, id := range partitions {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = id, place
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
				return nil, fmt.Errorf("asking for the bounds of %s partition %d: %w", name, p.Partition, WithGrantHint(err, "Read", OfTopic, name))
			}
			offsets[p.Partition] = p.Offset
		}
	}
	if len(offsets) != len(partitions) {
		return nil, fmt.Errorf("asking for the bounds of %s: %w", name, errNoAnswer)
	}
	return offsets, nil
}

// FetchCommitted leaves out partitions for which nothing was committed; no partitions are all
// of them. settled makes it an error that may pass where something is being committed.
func FetchCommitted(ctx context.Context, client *kgo.Client, group, name string, partitions []int32, settled bool) (map[int32]CommittedOffset, error) {
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
			continue // it has committed nothing; some brokers say it with this, others with offsets of -1
		}
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("asking what %s has committed: %w", group, WithGrantHint(err, "Describe", OfGroup, group))
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("asking what %s has committed for %s partition %d: %w", group, name, p.Partition, WithGrantHint(err, "Describe", OfTopic, name))
				}
				if p.Offset >= 0 && p.Metadata != nil {
					all[p.Partition] = CommittedOffset{p.Offset, *p.Metadata}
				}
			}
		}
	}
	return all, nil
}
