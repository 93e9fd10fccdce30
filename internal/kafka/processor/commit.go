package processor

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tracing"
	"github.com/stillhere/stillhere/schemas"
)

// pending reports whether anything was handled that is not committed.
func (s *session) pending() bool { return !s.offsetSince.IsZero() }

// dueAt is when what is pending must be committed.
func (s *session) dueAt() time.Time {
	due := s.offsetSince.Add(s.Config.IdleCommitInterval)
	if !s.outputSince.IsZero() {
		soon := s.lastBegun.Add(s.spacing())
		if settled := s.lastCommit.Add(linger(s.Config)); settled.After(soon) {
			soon = settled
		}
		if soon.Before(due) {
			due = soon
		}
	}
	return due
}

// spacing is the least time between the starts of two publishing commits: twice as long as the last one took, between
// once and twice Config.CommitInterval. So brokers that are busy get fewer transactions.
func (s *session) spacing() time.Duration {
	return min(max(s.Config.CommitInterval, 2*s.lastCommit.Sub(s.lastBegun)), 2*s.Config.CommitInterval)
}

// linger is how long output after a commit waits for more, unless it is to be committed before.
// Meanwhile the brokers write the markers of the last transaction, which delays an earlier write
// of the next one, and records that were appended during the commit are fetched. Records that are
// written together cost one request, and one to the transaction coordinator.
func linger(c kafka.Config) time.Duration { return c.CommitInterval / 2 }

// due reports whether to commit.
func (s *session) due() bool {
	return s.pending() && (s.transactionFull() || !time.Now().Before(s.dueAt()))
}

func (s *session) begin() error {
	if s.inTxn {
		return nil
	}
	if err := s.group.Begin(); err != nil {
		return kafka.SessionErrorf("begin", "beginning a transaction: %w", err)
	}
	s.inTxn, s.begunAt = true, time.Now()
	return nil
}

// produced is called by the client for every record of the transaction.
func (s *session) produced(r *kgo.Record, err error) {
	if err != nil {
		err = s.withGrantHints(kafka.WithGrantHint(err, "Write", kafka.OfTopic, r.Topic))
		s.produceErr.CompareAndSwap(nil, &err)
		return
	}
	s.written.Add(1)
}

// commit publishes everything handled so far together with the offsets, or returns why the session
// must end. A shutdown does not interrupt it.
//
// A transaction that was cleanly aborted although no partition was revoked is written once more from
// s.outputs: that happens whenever the group moves on while the client prepares the commit, so in
// most rebalances.
func (s *session) commit() (err error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.Config.StopTimeout)
	defer cancel()
	ctx, end := tracing.Span(ctx,
		tracing.Batch{What: "commit", Topic: s.Name, Group: s.Group, Partition: -1, Records: len(s.outputs)})
	defer func() { end(err) }()
	for tries := 1; ; tries++ {
		committed, err := s.tryCommit(ctx)
		if err != nil {
			s.Metrics.TransactionEnded("failed")
			return err
		}
		if committed {
			break
		}
		s.Metrics.TransactionEnded("aborted")
		if tries == commitTries || s.rebalanced.Load() || s.Failure() != nil || !kafka.Pause(ctx, kafka.Backoff(tries)) {
			return kafka.SessionErrorf("aborted",
				"the transaction was aborted: the group changed while it was open, or a broker asked for it")
		}
		if err := s.writeAgain(); err != nil {
			return err
		}
	}
	s.Metrics.TransactionEnded("committed")
	for _, p := range s.Parts() {
		p.dirty = false
	}
	s.adjustLimit(time.Since(s.begunAt))
	clear(s.outputs)
	s.outputs, s.outputBytes, s.outputParts = s.outputs[:0], 0, 0
	s.offsetSince, s.outputSince = time.Time{}, time.Time{}
	s.lastBegun, s.lastCommit = begun, time.Now()
	s.commits++
	return nil
}

const commitTries = 3

var errLetThrough = errors.New("it took too long, a rebalance had to be let through")

// rebalanceInterrupted reports whether a commit failed only because the group moved on meanwhile.
func rebalanceInterrupted(err error) bool {
	switch kafka.ReasonOf(err) {
	case "aborted":
		return true
	case "commit":
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errLetThrough)
	}
	return false
}

// tryCommit ends the transaction. It is false if that was cleanly aborted.
func (s *session) tryCommit(ctx context.Context) (committed bool, err error) {
	if err := s.begin(); err != nil {
		return false, err
	}
	crashpoint.At("commit.begun")
	if err := s.forwards.wait(ctx); err != nil {
		return false, kafka.SessionErrorf("forward", "forwarding to the right partition: %w", err)
	}
	crashpoint.At("commit.forwarded")
	if err := s.Client.Flush(ctx); err != nil {
		return false, kafka.SessionErrorf("produce", "writing the transaction's records: %w", err)
	}
	if err := s.produceErr.Load(); err != nil {
		return false, kafka.SessionErrorf("produce", "writing the transaction's records: %w", *err)
	}
	crashpoint.At("commit.flushed")
	released := s.watchEnd()
	defer func() { s.adjustTimeout(time.Since(s.begunAt)) }()
	committed, err = s.group.End(kgo.PreTxnCommitFnContext(ctx, s.offsets), kgo.TryCommit)
	crashpoint.At("commit.ended")
	if released() && (!committed || s.dispatched) && err == nil {
		err = errLetThrough // what partitions handle meanwhile must not be written while partitions go
	}
	if err != nil {
		return false, kafka.SessionErrorf("commit", "committing: %w", s.withGrantHints(err))
	}
	s.inTxn = false
	return committed, nil
}

// watchEnd makes sure that End returns. If the group removes this member meanwhile, End waits for a
// heartbeat that is not sent any more, and the callback that would end the wait waits for
// AllowRebalance. released ends the guard and reports whether it had to allow a rebalance.
func (s *session) watchEnd() (released func() bool) {
	done, result := make(chan struct{}), make(chan bool, 1)
	go func() {
		ticker := time.NewTicker(s.Config.RebalanceTimeout / 4)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// Without a callback that waits, End waits for other members to join.
				if s.rebalanceWaiting.Load() {
					s.Client.AllowRebalance()
					result <- true
					return
				}
			case <-done:
				result <- false
				return
			}
		}
	}()
	return func() bool { close(done); return <-result }
}

// writeAgain begins another transaction with the same records. The client went back to the last
// commit, but the tasks did not, so it must continue where they are.
func (s *session) writeAgain() error {
	ahead := map[int32]kgo.EpochOffset{}
	for _, p := range s.Parts() {
		if p.dirty {
			ahead[p.ID] = kgo.EpochOffset{Epoch: -1, Offset: p.handled.next}
		}
	}
	s.Client.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.Name: ahead})
	if err := s.begin(); err != nil {
		return err
	}
	for i := range s.outputs {
		s.outputs[i] = &kgo.Record{Topic: s.outputs[i].Topic, Partition: s.outputs[i].Partition,
			Key: s.outputs[i].Key, Value: s.outputs[i].Value, Headers: s.outputs[i].Headers, Timestamp: s.outputs[i].Timestamp}
		s.Client.Produce(s.Ctx, s.outputs[i], s.produced)
	}
	return nil
}

// offsets replaces the client's offsets, those polled, by those handled, with the tasks' checkpoints.
func (s *session) offsets(request *kmsg.TxnOffsetCommitRequest) error {
	transaction := schemas.Transaction{Producer: request.ProducerID, Epoch: request.ProducerEpoch}
	s.epoch.Store(int32(transaction.Epoch))
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = s.Name
	for _, t := range request.Topics {
		if t.Topic == s.Name {
			topic.TopicID = t.TopicID
		}
	}
	for _, p := range s.Parts() {
		if !p.dirty {
			continue
		}
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition = p.ID
		part.Offset = p.handled.committable()
		part.LeaderEpoch = -1
		metadata := transaction.On(p.handled.checkpoint)
		part.Metadata = &metadata
		topic.Partitions = append(topic.Partitions, part)
	}
	if len(topic.Partitions) == 0 {
		return errors.New("nothing to commit")
	}
	crashpoint.At("commit.offsets")
	request.Topics = []kmsg.TxnOffsetCommitRequestTopic{topic}
	return nil
}
