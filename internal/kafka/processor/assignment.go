package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor/owners"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// The client's callbacks come in this order for a partition: onAssigned,
// onFetched, onPositions, and onRevoked or onLost. Those that take partitions
// away never run while the loop has something in hand.

func (s *session) onAssigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	ids := assigned[s.name]
	// After the partitions are known, or they would seem to be none.
	defer s.assignmentSeen.Store(true)
	s.proc.instances.Joined.Store(true)
	if len(ids) == 0 {
		return
	}
	s.proc.metrics.PartitionsMoved("assigned", len(ids))
	// Nothing must be fetched before it can be handled.
	client.PauseFetchPartitions(map[string][]int32{s.name: ids})
	for _, id := range ids {
		p := newPartition(s, id)
		s.mu.Lock()
		s.parts[id] = p
		s.mu.Unlock()
		if s.proc.surplus(id) {
			s.proc.metrics.PartitionParked(id)
			s.proc.log.Error("ALARM: partitions were added to the topic while this process runs; it does not read the new ones",
				"partition", id, "partitions_at_start", s.proc.partitions.Load())
			p.phase.Store(kafka.Parked)
			continue
		}
		if s.proc.parked(id) {
			p.phase.Store(kafka.Parked)
			continue
		}
		s.work.Go(p.run)
	}
	s.proc.log.Info("partitions assigned", "partitions", ids)
}

func (s *session) onRevoked(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
	ids := revoked[s.name]
	if len(ids) == 0 {
		return
	}
	s.proc.metrics.PartitionsMoved("revoked", len(ids))
	s.proc.log.Info("partitions revoked", "partitions", ids)
	for _, id := range ids {
		if p := s.part(id); p != nil {
			s.drop(p)
		}
	}
	s.rebalanced.Store(true)
	s.wake()
}

func (s *session) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	ids := lost[s.name]
	if len(ids) == 0 {
		return // never let in: the next poll tells why
	}
	s.proc.metrics.PartitionsMoved("lost", len(ids))
	s.proc.log.Error("partitions lost: the group removed this member", "partitions", ids)
	s.fail(kafka.SessionErrorf("lost", "the group took partitions %v away", ids))
}

// drop forgets a partition and the state of its task.
func (s *session) drop(p *partition) {
	s.mu.Lock()
	if s.parts[p.id] == p {
		delete(s.parts, p.id)
	}
	s.mu.Unlock()
	p.cancel()
}

// clearRebalance clears the mark by which the client would refuse the next
// commit because of a revocation that came before it: everything pending was
// committed by then, and what comes now is of partitions that stayed.
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
	ctx, cancel := context.WithTimeout(s.ctx, s.proc.cfg.StopTimeout)
	defer cancel()
	if _, err := s.group.End(ctx, kgo.TryAbort); err != nil {
		return kafka.SessionErrorf("abort", "settling a rebalance: %w", err)
	}
	// The client does not tell of a second revocation before the mark is cleared.
	owned := s.CommittedOffsets()[s.name]
	for _, p := range s.assigned() {
		if _, ok := owned[p.id]; !ok && p.handledAny {
			s.proc.log.Warn("the group revoked a partition without notice", "partition", p.id)
			s.drop(p)
		}
	}
	return nil
}

// onOffsetsFetched keeps what was committed for the partitions just assigned.
func (s *session) onOffsetsFetched(ctx context.Context, client *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	meta, err := kafka.DescribeTopic(ctx, client, s.name, "Read")
	if err != nil {
		return err
	}
	partitions := int32(len(meta.Leaders))
	if byUser(s.proc.input) {
		partitions = s.proc.partitions.Load()
	}
	clear(s.commitsFor)
	for _, g := range response.Groups {
		for _, topic := range g.Topics {
			if topic.Topic != s.name && (topic.Topic != "" || topic.TopicID != meta.ID) {
				continue
			}
			for _, p := range topic.Partitions {
				commit := stream.Assignment{Partition: p.Partition, Partitions: partitions, Offset: p.Offset, TopicID: meta.ID}
				if commit.Offset < 0 {
					commit.Offset = -1
				} else if p.Metadata != nil {
					commit.Metadata = *p.Metadata
				}
				s.commitsFor[p.Partition] = commit
			}
		}
	}
	return nil
}

// onAdjustOffsets says where reading starts, and lets the restoring begin.
func (s *session) onAdjustOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for id := range offsets[s.name] {
		commit, ok := s.commitsFor[id]
		if !ok {
			return nil, kafka.SessionErrorf("start", "the group returned no committed offset for partition %d", id)
		}
		var err error
		if commit.LogStart, commit.LogEnd, err = s.proc.reader.Bounds(ctx, s.proc.input, id); err != nil {
			return nil, err
		}
		first := s.firstOffset(commit)
		// Without its epoch: we have just compared with the log as it is.
		offsets[s.name][id] = kgo.NewOffset().At(first)
		if p := s.part(id); p != nil {
			p.begin <- startPoint{commit: commit, first: first, owners: s.previousOwners(commit)}
		}
	}
	return offsets, nil
}

// previousOwners are those to be named in what is committed from now on.
func (s *session) previousOwners(c stream.Assignment) []owners.Owner {
	named, complete := owners.Decode(c.Metadata)
	if !complete && c.Offset >= 0 && len(named) == 0 {
		named = append(named, owners.Unknown(time.Now())) // an older program's
	}
	return named
}

// firstOffset is where a partition goes on; see Task.Restore.
func (s *session) firstOffset(c stream.Assignment) int64 {
	log := s.proc.log.With("partition", c.Partition, "committed", c.Offset, "start", c.LogStart, "end", c.LogEnd)
	checkpoint, err := schemas.DecodeCheckpoint(c.Metadata)
	switch {
	case c.Offset < 0:
		return c.LogStart
	case err == nil && checkpoint.TopicID.Differs(c.TopicID):
		s.proc.metrics.GapFound()
		log.Error("ALARM: the topic was deleted and recreated; reading from its start")
		return c.LogStart
	case c.Offset < c.LogStart:
		s.proc.metrics.GapFound()
		log.Error("ALARM: retention removed records before they were handled; continuing from the start of the log")
		return c.LogStart
	case c.Offset > c.LogEnd:
		s.proc.metrics.GapFound()
		log.Error("ALARM: the log ends before the committed offset; continuing from its start")
		return c.LogStart
	}
	return c.Offset
}

// stillWithoutCommit is an error when something was committed for the partition since it
// was assigned to us without a commit. A process that stood still does not know yet that
// others have gone on without it; what they published must not look like what was published
// before a commit was lost.
func (p *partition) stillWithoutCommit(ctx context.Context) error {
	for again := 0; ; again++ {
		// A transaction shows in the topics a moment before its offsets do.
		commits, err := p.s.proc.reader.Commits(ctx, p.s.proc.group, p.s.proc.input, true, p.id)
		switch {
		case errors.Is(err, kerr.UnstableOffsetCommit) && kafka.Pause(ctx, kafka.Backoff(again)):
			continue
		case err != nil:
			return err
		}
		if c, ok := commits[p.id]; ok {
			return fmt.Errorf("another member has committed offset %d since this one was given the partition", c.Offset)
		}
		return nil
	}
}
