package processor

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// open makes the client and fences whoever had the name before, which also ends
// what that one left open, before it asks for partitions: their offsets are
// stable then.
func (s *session) open(stop context.Context) error {
	cfg := s.proc.cfg
	options, err := kafka.ClientOptions(cfg, s.proc.log)
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	options = append(options, s.groupOptions()...)
	options = append(options, kafka.FetchOptions(cfg)...)
	options = append(options, s.proc.metrics.ClientHooks(s.proc.group)...)
	if s.group, err = kgo.NewGroupTransactSession(options...); err != nil {
		return kafka.SessionErrorf("start", "setting up a Kafka client for %v: %w", cfg.Brokers, err)
	}
	s.Client = s.group.Client()
	if err := s.prepare(stop); err != nil {
		return err
	}
	s.lastCommit = time.Now()
	s.AddConsumeTopics(s.name)
	return nil
}

func (s *session) prepare(stop context.Context) error {
	ctx, cancel := context.WithTimeout(stop, max(s.proc.cfg.StopTimeout, kafka.OpenTimeout))
	defer cancel()
	count, err := kafka.PartitionCount(ctx, s.Client, s.name, "Read")
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	s.proc.partitions.CompareAndSwap(0, count)
	count, err = kafka.PartitionCount(ctx, s.Client, schemas.DeadLetter.Name(s.proc.cfg.Prefix), "Write")
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	s.deadLetters = count
	id, epoch, err := s.ProducerID(ctx)
	if err != nil {
		return kafka.SessionErrorf("start", "taking the transactional id %s: %w", s.proc.instanceID(), kafka.WithGrantHint(err, "Write", kafka.OfTransactionalID, s.proc.instanceID()))
	}
	// Reading what hangs may take its time.
	ending, cancel := context.WithTimeout(stop, endingTimeout)
	defer cancel()
	if err := s.endHanging(ending, id, epoch); err != nil {
		return kafka.SessionErrorf("hanging", "%w", err)
	}
	return nil
}

func (p *Processor) instanceID() string { return p.group + "." + p.cfg.InstanceName }

func (s *session) groupOptions() []kgo.Opt {
	cfg := s.proc.cfg
	isolation := kgo.ReadCommitted()
	if s.proc.input == schemas.Heartbeats {
		// It is never written in a transaction, so one that hangs must not stop it.
		isolation = kgo.ReadUncommitted()
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(s.proc.group),
		kgo.InstanceID(s.proc.instanceID()),
		kgo.TransactionalID(s.proc.instanceID()),
		kgo.TransactionTimeout(s.proc.transactionTimeout()),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
		kgo.HeartbeatInterval(cfg.SessionTimeout / 12),
		s.proc.instances.Balancer(),
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(isolation),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// An offset out of range ends the session: restoring finds out what became
		// of the log, and tells the task.
		kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(linger(cfg)),
		kgo.OnPartitionsAssigned(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked),
		kgo.OnPartitionsLost(s.onLost),
		kgo.OnPartitionsCallbackBlocked(func(context.Context, *kgo.Client) { s.rebalanceWaiting.Store(true); s.wake() }),
		kgo.OnOffsetsFetched(s.onOffsetsFetched),
		kgo.AdjustFetchOffsetsFn(s.onAdjustOffsets),
		// Where a log ends with a marker, one would never be there without it; and a
		// record beside one, also among the heartbeats, would seem to come after a hole.
		kgo.KeepControlRecords(),
	}
}

// close ends everything that the session started, and waits for it.
func (s *session) close() {
	s.cancel()
	if s.inTxn {
		// The next session would do this as well, but there may be none.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if _, err := s.group.End(ctx, kgo.TryAbort); err != nil {
			s.proc.log.Warn("aborting the transaction of an ended session failed", "error", err)
		}
		cancel()
	}
	if s.Client != nil {
		s.CloseAllowingRebalance()
	}
	for _, p := range s.assigned() {
		s.drop(p)
	}
	s.waitForWork()
}

// waitForWork gives up on a task that hangs: nothing can end its goroutine, and
// nobody uses its state any more.
func (s *session) waitForWork() {
	const patience = 2 * time.Second
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.proc.log.Error("a task hangs; its goroutine is abandoned", "waited", patience)
	}
}
