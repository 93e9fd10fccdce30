package processor

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor/hanging"
	"github.com/stillhere/stillhere/schemas"
)

// open makes the client and takes the transactional id, which fences a process that had it and
// aborts what that one left open. Only then does it ask for partitions: their offsets are stable.
func (s *session) open(stop context.Context) error {
	options, err := s.ClientOptions()
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	options = append(options, s.GroupOptions(s.onAssigned, s.onRevoked, s.onLost)...)
	if s.group, err = kgo.NewGroupTransactSession(append(options, s.transactOptions()...)...); err != nil {
		return kafka.SessionErrorf("start", "setting up a Kafka client for %v: %w", s.Config.Brokers, err)
	}
	s.Client = s.group.Client()
	ctx, cancel := s.OpenContext(stop)
	defer cancel()
	count, err := s.CountPartitions(ctx)
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	s.proc.partitions.CompareAndSwap(0, count)
	producer, epoch, err := s.Client.ProducerID(ctx)
	if err != nil {
		return kafka.SessionErrorf("start", "taking the transactional id %s: %w", s.InstanceID(),
			kafka.WithGrantHint(err, "Write", kafka.OfTransactionalID, s.InstanceID()))
	}
	// Reading the records of a hanging transaction may take long.
	ending, cancel := context.WithTimeout(stop, endingTimeout)
	defer cancel()
	if err := s.hanging().End(ending, producer, epoch); err != nil {
		return kafka.SessionErrorf("hanging", "%w", err)
	}
	s.lastCommit = time.Now()
	s.Client.AddConsumeTopics(s.Name)
	return nil
}

// endingTimeout bounds ending hanging transactions.
const endingTimeout = 10 * time.Minute

func (s *session) hanging() *hanging.Ender {
	return &hanging.Ender{Loop: s.Loop, Client: s.Client, Outputs: s.proc.outputs}
}

func (s *session) transactOptions() []kgo.Opt {
	isolation := kgo.ReadCommitted()
	if s.Topic == schemas.Heartbeats {
		// It is never written in a transaction, so a hanging one must not stop it.
		isolation = kgo.ReadUncommitted()
	}
	return []kgo.Opt{
		kgo.TransactionalID(s.InstanceID()),
		kgo.TransactionTimeout(s.proc.transactionTimeout()),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(isolation),
		// An offset out of range ends the session: the next one compares with the log, and the task
		// gets its bounds.
		kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(linger(s.Config)),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) { s.rebalanceWaiting.Store(true); s.Wake() }),
		kgo.OnOffsetsFetched(s.onOffsetsFetched),
		kgo.AdjustFetchOffsetsFn(s.onAdjustOffsets),
	}
}

// hungTaskTimeout is how long a session that ends waits for its tasks.
const hungTaskTimeout = 2 * time.Second

// close ends everything that the session started and waits for it. It abandons the goroutine of a
// task that hangs: nothing can end it, and nobody uses its state any more.
func (s *session) close() {
	s.Cancel()
	if s.inTxn {
		// The next session would do this as well, but there may be none.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if _, err := s.group.End(ctx, kgo.TryAbort); err != nil {
			s.Log.Warn("aborting the transaction of an ended session failed", "error", err)
		} else {
			s.inTxn = false
		}
		cancel()
	}
	if s.Client != nil {
		s.Client.CloseAllowingRebalance()
	}
	for _, p := range s.Parts() {
		s.drop(p)
	}
	done := make(chan struct{})
	go func() { s.Work.Wait(); close(done) }()
	timer := time.NewTimer(hungTaskTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.Log.Error("a task hangs; its goroutine is abandoned", "waited", hungTaskTimeout)
	}
}
