package processor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// The client calls these in this order for a partition: onAssigned, onOffsetsFetched,
// onAdjustOffsets, and onRevoked or onLost.

func (s *session) onAssigned(client *kgo.Client, ids []int32) {
	// Nothing must be fetched before it can be handled.
	client.PauseFetchPartitions(map[string][]int32{s.Name: ids})
	for _, id := range ids {
		p := newPartition(s, id)
		s.Set(id, p)
		if s.proc.surplus(id) {
			s.Metrics.PartitionParked(id)
			p.log.Error("ALARM: partitions were added to the topic while this process runs; it does not read the new ones",
				"partitions_at_start", s.proc.partitions.Load())
			p.Phase.Store(kafka.Parked)
		} else if _, parked := s.proc.failures.of(id); parked {
			p.Phase.Store(kafka.Parked)
		} else {
			s.Work.Go(p.run)
		}
	}
}

func (s *session) onRevoked(_ context.Context, _ *kgo.Client, ids []int32) {
	for _, id := range ids {
		if p := s.Part(id); p != nil {
			s.drop(p)
		}
	}
	s.rebalanced.Store(true)
	s.Wake()
}

func (s *session) onLost(ids []int32) {
	s.Fail(kafka.SessionErrorf("lost", "the group took partitions %v away", ids))
}

// drop forgets a partition and the state of its task.
func (s *session) drop(p *partition) {
	s.Remove(p.ID, p)
	p.cancel()
}

// clearRebalance clears the mark by which the client would refuse the next commit because of a
// revocation before it. Everything pending was committed by then, and what is pending now is of
// partitions that stayed.
func (s *session) clearRebalance() error {
	if !s.rebalanced.Swap(false) {
		return nil
	}
	if s.pending() || s.inTxn {
		return kafka.SessionErrorf("rebalance", "partitions were revoked in the middle of a transaction")
	}
	if err := s.group.Begin(); err != nil {
		return kafka.SessionErrorf("begin", "settling a rebalance: %w", err)
	}
	ctx, cancel := context.WithTimeout(s.Ctx, s.Config.StopTimeout)
	defer cancel()
	if _, err := s.group.End(ctx, kgo.TryAbort); err != nil {
		return kafka.SessionErrorf("abort", "settling a rebalance: %w", err)
	}
	// The client does not call back for a second revocation before the mark is cleared.
	owned := s.Client.CommittedOffsets()[s.Name]
	for _, p := range s.Parts() {
		if _, ok := owned[p.ID]; !ok && p.handledAny {
			p.log.Warn("the group revoked a partition without notice")
			s.drop(p)
		}
	}
	return nil
}

// onOffsetsFetched keeps what was committed for the partitions just assigned.
func (s *session) onOffsetsFetched(ctx context.Context, client *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	meta, err := kafka.DescribeTopic(ctx, client, s.Name, "Read")
	if err != nil {
		return err
	}
	partitions := int32(len(meta.Leaders))
	if s.proc.byUser() {
		partitions = s.proc.partitions.Load()
	}
	clear(s.commitsFor)
	for _, g := range response.Groups {
		for _, topic := range g.Topics {
			if topic.Topic != s.Name && (topic.Topic != "" || topic.TopicID != meta.ID) {
				continue
			}
			for _, p := range topic.Partitions {
				commit := stream.Assignment{Partition: p.Partition, Partitions: partitions,
					Offset: max(p.Offset, -1), TopicID: meta.ID}
				if commit.Offset >= 0 && p.Metadata != nil {
					commit.Metadata = *p.Metadata
				}
				s.commitsFor[p.Partition] = commit
			}
		}
	}
	return nil
}

// onAdjustOffsets returns where reading starts, and lets the partitions restore.
func (s *session) onAdjustOffsets(ctx context.Context, offsets member.Offsets) (member.Offsets, error) {
	for id := range offsets[s.Name] {
		commit, ok := s.commitsFor[id]
		if !ok {
			return nil, kafka.SessionErrorf("start", "the group returned no committed offset for partition %d", id)
		}
		var err error
		if commit.LogStart, commit.LogEnd, err = s.Reader.Bounds(ctx, s.Topic, id); err != nil {
			return nil, err
		}
		first := s.firstOffset(commit)
		// Without a leader epoch: the offset was just compared with the log as it is.
		offsets[s.Name][id] = kgo.NewOffset().At(first)
		if p := s.Part(id); p != nil {
			p.begin <- startPoint{commit: commit, first: first}
		}
	}
	return offsets, nil
}

// firstOffset is where a partition goes on; see Task.Restore.
func (s *session) firstOffset(c stream.Assignment) int64 {
	var of schemas.TopicID
	if checkpoint, err := schemas.DecodeCheckpoint(c.Metadata); err == nil && c.Offset >= 0 {
		of = checkpoint.TopicID
	}
	return s.FirstOffset(c, of)
}

// stillWithoutCommit returns an error if something was committed for the partition since it was
// assigned to this process without a commit. A process that was stopped for a while does not know
// that others have gone on. What they published must not be taken for records from before a lost
// commit.
func (p *partition) stillWithoutCommit(ctx context.Context) error {
	for again := 0; ; again++ {
		// A transaction shows in the topics a moment before its offsets do.
		commits, err := p.s.Reader.Commits(ctx, p.s.Group, p.s.Topic, true, p.ID)
		switch {
		case errors.Is(err, kerr.UnstableOffsetCommit) && kafka.Pause(ctx, kafka.Backoff(again)):
			continue
		case err != nil:
			return err
		}
		if c, ok := commits[p.ID]; ok {
			return fmt.Errorf("another member has committed offset %d since this one was given the partition", c.Offset)
		}
		return nil
	}
}
