package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/schemas"
)

// The client's callbacks come in this order for a partition: onAssigned,
// onFetched, onPositions, and onRevoked or onLost. Those that take partitions
// away never run while the loop has something in hand.

func (s *session) onAssigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	ids := assigned[s.name]
	// After the partitions are known, or they would seem to be none.
	defer s.told.Store(true)
	s.t.twins.wasIn.Store(true)
	if len(ids) == 0 {
		return
	}
	s.t.metrics.rebalance("assigned", len(ids))
	// Nothing must be fetched before it can be handled.
	client.PauseFetchPartitions(map[string][]int32{s.name: ids})
	for _, id := range ids {
		p := newPartition(s, id)
		s.mu.Lock()
		s.parts[id] = p
		s.mu.Unlock()
		if s.t.surplus(id) {
			s.t.metrics.park(id)
			s.t.log.Error("ALARM: the topic was given more partitions under this process; what is in the new ones is left alone",
				"partition", id, "partitions at start", s.t.partitions.Load())
			p.phase.Store(Parked)
			continue
		}
		if s.t.parked(id) {
			p.phase.Store(Parked)
			continue
		}
		s.work.Go(p.run)
	}
	s.t.log.Info("partitions assigned", "partitions", ids)
}

func (s *session) onRevoked(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
	ids := revoked[s.name]
	if len(ids) == 0 {
		return
	}
	s.t.metrics.rebalance("revoked", len(ids))
	s.t.log.Info("partitions revoked", "partitions", ids)
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
	s.t.metrics.rebalance("lost", len(ids))
	s.t.log.Error("partitions lost: the group went on without us", "partitions", ids)
	s.fail(broken("lost", "the group took partitions %v away", ids))
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

// settleRebalance clears the mark by which the client would refuse the next
// commit because of a revocation that came before it: everything pending was
// committed by then, and what comes now is of partitions that stayed.
func (s *session) settleRebalance() error {
	if !s.rebalanced.Swap(false) {
		return nil
	}
	if s.pending() || s.inTxn {
		return broken("rebalance", "partitions were revoked in the middle of a transaction")
	}
	if err := s.group.Begin(); err != nil {
		return broken("begin", "settling a rebalance: %w", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.t.cfg.StopTimeout)
	defer cancel()
	if _, err := s.group.End(ctx, kgo.TryAbort); err != nil {
		return broken("abort", "settling a rebalance: %w", err)
	}
	// The client does not tell of a second revocation before the mark is cleared.
	owned := s.CommittedOffsets()[s.name]
	for _, p := range s.each() {
		if _, ok := owned[p.id]; !ok && p.handledAny {
			s.t.log.Warn("a partition went without notice", "partition", p.id)
			s.drop(p)
		}
	}
	return nil
}

// onFetched keeps what was committed for the partitions just assigned.
func (s *session) onFetched(ctx context.Context, client *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	meta, err := describe(ctx, client, s.name, "Read")
	if err != nil {
		return err
	}
	partitions := int32(len(meta.leaders))
	if byUser(s.t.input) {
		partitions = s.t.partitions.Load()
	}
	clear(s.commitsFor)
	for _, g := range response.Groups {
		for _, topic := range g.Topics {
			if topic.Topic != s.name && (topic.Topic != "" || topic.TopicID != meta.id) {
				continue
			}
			for _, p := range topic.Partitions {
				commit := schemas.Commit{Partition: p.Partition, Partitions: partitions, Offset: p.Offset, TopicID: meta.id}
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

// onPositions says where reading starts, and lets the restoring begin.
func (s *session) onPositions(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for id := range offsets[s.name] {
		commit, ok := s.commitsFor[id]
		if !ok {
			return nil, broken("start", "no committed offset was told of partition %d", id)
		}
		var err error
		if commit.LogStart, commit.LogEnd, err = s.t.reader.Bounds(ctx, s.t.input, id); err != nil {
			return nil, err
		}
		first := s.firstOffset(commit)
		// Without its epoch: we have just compared with the log as it is.
		offsets[s.name][id] = kgo.NewOffset().At(first)
		if p := s.part(id); p != nil {
			p.begin <- beginning{commit: commit, first: first, owners: s.ownersBefore(commit)}
		}
	}
	return offsets, nil
}

// ownersBefore are those to be named in what is committed from now on.
func (s *session) ownersBefore(c schemas.Commit) []owner {
	owners, complete := ownersIn(c.Metadata)
	if !complete && c.Offset >= 0 && len(owners) == 0 {
		owners = append(owners, forgotten(time.Now())) // an older program's
	}
	return owners
}

// firstOffset is where a partition goes on; see Task.Restore.
func (s *session) firstOffset(c schemas.Commit) int64 {
	log := s.t.log.With("partition", c.Partition, "committed", c.Offset, "start", c.LogStart, "end", c.LogEnd)
	checkpoint, err := schemas.DecodeCheckpoint(c.Metadata)
	switch {
	case c.Offset < 0:
		return c.LogStart
	case err == nil && checkpoint.TopicID.Differs(c.TopicID):
		s.t.metrics.gap()
		log.Error("ALARM: the topic was deleted and made anew; going on from its start")
		return c.LogStart
	case c.Offset < c.LogStart:
		s.t.metrics.gap()
		log.Error("ALARM: retention has removed records that were never handled; going on from the start")
		return c.LogStart
	case c.Offset > c.LogEnd:
		s.t.metrics.gap()
		log.Error("ALARM: the log was cut back behind what was committed; going on from its start")
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
		commits, err := p.s.t.reader.Commits(ctx, p.s.t.group, p.s.t.input, true, p.id)
		switch {
		case errors.Is(err, kerr.UnstableOffsetCommit) && pause(ctx, backoff(again)):
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
