package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Observer looks at the consumer groups of a pipeline through one connection. Safe for concurrent use.
type Observer struct {
	client *kadm.Client
	cfg    kafka.Config
}

// OpenObserver opens an Observer without waiting for Kafka.
func OpenObserver(cfg kafka.Config) (*Observer, error) {
	client, cfg, err := openAdmin(cfg)
	if err != nil {
		return nil, err
	}
	return &Observer{client: client, cfg: cfg}, nil
}

// Close closes the connections.
func (o *Observer) Close() { o.client.Close() }

// GroupInput is a group, named without the prefix, and the topic that it reads.
type GroupInput struct {
	Group string
	Topic schemas.Topic
}

// Group is a consumer group as Kafka knows it.
type Group struct {
	GroupInput
	// State is as Kafka calls it: Stable, PreparingRebalance, Empty, Dead.
	State   string
	Members []GroupMember
	// Committed are the offsets that the group has committed of the topic, by partition.
	Committed map[int32]kafka.CommittedOffset
}

// GroupMember is one process in a group.
type GroupMember struct {
	Version string // of its program; empty: not known
	// Instance is the stable name of the process; without one the client's id.
	Instance, Host string
	Started        time.Time // of the process, by its own clock; zero if it is not known
	Partitions     []int32   // of the topic
}

// Groups describes groups. A group that Kafka does not know, or that this user may not describe, is
// left out.
func (o *Observer) Groups(ctx context.Context, asked []GroupInput) ([]Group, error) {
	names := make([]string, len(asked))
	for i, a := range asked {
		names[i] = o.cfg.GroupName(a.Group)
	}
	described, err := o.client.DescribeGroups(ctx, names...)
	var some *kadm.ShardErrors
	if err != nil && !errors.As(err, &some) {
		return nil, fmt.Errorf("describing the consumer groups: %w", err)
	}
	offsets := o.client.FetchManyOffsets(ctx, names...)
	var groups []Group
	for i, a := range asked {
		found, known := described[names[i]]
		if !known || found.Err != nil || found.State == "Dead" {
			continue
		}
		g := Group{GroupInput: a, State: found.State, Committed: map[int32]kafka.CommittedOffset{}}
		name := a.Topic.Name(o.cfg.Prefix)
		for _, m := range found.Members {
			g.Members = append(g.Members, memberOf(m, names[i], name))
		}
		if committed := offsets[names[i]]; committed.Err == nil {
			for partition, at := range committed.Fetched[name] {
				if at.Err == nil && at.At >= 0 {
					g.Committed[partition] = kafka.CommittedOffset{Offset: at.At, Metadata: at.Metadata}
				}
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func memberOf(m kadm.DescribedGroupMember, group, topic string) GroupMember {
	member := GroupMember{Instance: m.ClientID, Host: m.ClientHost}
	if m.InstanceID != nil {
		member.Instance = kafka.InstanceOf(group, *m.InstanceID)
	}
	if meta, ok := m.Join.AsConsumer(); ok {
		stamp := kafka.StampOf(meta.UserData)
		member.Version = stamp.Version
		if stamp.Started > 0 {
			member.Started = time.UnixMilli(stamp.Started)
		}
	}
	if assigned, ok := m.Assigned.AsConsumer(); ok {
		for _, t := range assigned.Topics {
			if t.Topic == topic {
				member.Partitions = append(member.Partitions, t.Partitions...)
			}
		}
	}
	return member
}

// Ends are the offsets after the last record of each partition of the topics, open transactions
// included.
func (o *Observer) Ends(ctx context.Context, topics ...schemas.Topic) (map[schemas.Topic]map[int32]int64, error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name(o.cfg.Prefix)
	}
	listed, err := o.client.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("listing the ends of the topics: %w", err)
	}
	ends := map[schemas.Topic]map[int32]int64{}
	for i, t := range topics {
		ends[t] = map[int32]int64{}
		for partition, end := range listed[names[i]] {
			if end.Err != nil && !errors.Is(end.Err, kerr.UnknownTopicOrPartition) {
				return nil, fmt.Errorf("listing the ends of %s: %w", names[i], end.Err)
			}
			if end.Err == nil {
				ends[t][partition] = end.Offset
			}
		}
	}
	return ends, nil
}
