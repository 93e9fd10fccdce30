package processor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/internal/stream"
)

// session is one membership in the group with one transactional producer. It ends with the first
// error, and the state of its partitions ends with it.
//
// Three kinds of goroutine meet here. The loop (run) owns the transaction and every field without
// a remark. The client's callbacks run only while the loop is in poll with nothing pending
// (BlockRebalanceOnPoll). Each partition has a goroutine.
type session struct {
	*member.Session[*partition]
	proc  *Processor
	group *kgo.GroupTransactSession

	restoredMu sync.Mutex
	restored   []*partition // whose fetching the loop must resume

	rebalanceWaiting atomic.Bool // a rebalance waits for a commit
	stopping         atomic.Bool // the process ends: nothing is retried
	rebalanced       atomic.Bool // the client will refuse the next commit for a revocation that is over

	commitsFor map[int32]stream.Assignment // between the two callbacks of an offset fetch

	batches     []batch      // to be handled; a partition with a batch here is not fetched
	dispatched  bool         // its partitions handle them
	failedParts []*partition // whose task has failed; to be restored after the next commit
	tasksDue    bool         // a task has been due once

	inTxn       bool
	begunAt     time.Time     // of the transaction
	outputs     []*kgo.Record // of the transaction, until it is committed
	outputBytes int
	outputParts int // records that they are the output of
	produceErr  atomic.Pointer[error]
	written     atomic.Int64 // records of transactions that were acknowledged
	forwards    *forwards

	outputSince time.Time // when the first pending output was handled; zero for none
	offsetSince time.Time // when the first pending record was handled; zero for none
	lastBegun   time.Time // when the last commit began
	lastCommit  time.Time // when it ended
	commits     int

	epoch atomic.Int32 // of the producer, in the last commit
}

// batch is what is to be handled of one partition: what a poll brought, or the rest of that. A
// partition that is in the middle of a record may have no other records.
type batch struct {
	part    *partition
	records []*kgo.Record
	held    bool // from an earlier round; its partition's fetching is paused
}

func newSession(p *Processor) *session {
	return &session{Session: member.NewSession[*partition](p.Loop), proc: p,
		commitsFor: map[int32]stream.Assignment{}, forwards: newForwards()}
}

// run returns when everything that the session started has stopped. When stop ends, it commits what
// is in hand and returns nil; otherwise it returns why it cannot go on.
func (s *session) run(stop context.Context) error {
	defer s.Cancel()
	if err := s.open(stop); err != nil {
		s.close()
		return err
	}
	defer s.Publish()()
	s.Work.Go(s.tick)
	s.Work.Go(s.watch)
	unhook := context.AfterFunc(stop, func() { s.stopping.Store(true); s.Wake() })
	err := s.loop(stop)
	unhook()
	s.close()
	return err
}

// loop is what this package is about.
func (s *session) loop(stop context.Context) error {
	for {
		fetches := s.poll(stop)
		if err := s.Failure(); err != nil {
			return err
		}
		if err := s.clearRebalance(); err != nil {
			return err
		}
		if err := s.collect(fetches); err != nil {
			return err
		}
		s.resumeRestored()
		s.addDueTasks()
		due, stopping := s.due(), stop.Err() != nil
		if !s.settles(stopping) {
			s.dispatch(due)
		}
		if due { // what was handled before, while the partitions handle what came
			if err := s.commit(); err != nil {
				return err
			}
		}
		if err := s.take(); err != nil {
			return err
		}
		if s.settles(stopping) && s.pending() {
			if err := s.commit(); err != nil {
				return err
			}
		}
		if stopping {
			if err := s.finish(); err != nil {
				s.Log.Warn("not all tasks could finish: the next start takes longer", "error", err)
			}
			return nil
		}
		s.restartFailed()
		if !s.pending() {
			s.rebalanceWaiting.Store(false)
			s.Client.AllowRebalance()
		}
	}
}

// settles reports whether everything handled is to be committed before more is.
func (s *session) settles(stopping bool) bool {
	return stopping || len(s.failedParts) > 0 || s.rebalanceWaiting.Load()
}

const (
	idlePoll    = 5 * time.Second  // the longest poll when nothing is pending
	backlogPoll = time.Millisecond // one while batches wait or a task is due
)

// poll waits for records, but not past the time of the next commit. When it returns, no rebalance
// happens until AllowRebalance.
func (s *session) poll(stop context.Context) kgo.Fetches {
	wait := s.untilTaskDue()
	if s.pending() {
		wait = min(wait, max(time.Until(s.dueAt()), 0))
	}
	if len(s.batches) > 0 || s.transactionFull() {
		wait = min(wait, backlogPoll)
	}
	most := 0 // all that came, so that partitions handle it at the same time
	if s.proc.batches.Load() {
		most = s.Config.MaxPollRecords
	}
	ready := func() bool { return s.rebalanceWaiting.Load() || stop.Err() != nil || s.restoredWait() }
	if wait == 0 && !ready() { // a context that has ended would bring nothing to handle during the commit
		return s.Client.PollRecords(nil, most) //nolint:staticcheck // nil: what has come by now
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return s.Poll(ctx, most, ready)
}

// restoredWait reports whether resumeRestored has something to do: a partition that was restored just
// before the poll began has ended no poll.
func (s *session) restoredWait() bool {
	s.restoredMu.Lock()
	defer s.restoredMu.Unlock()
	return len(s.restored) > 0
}

// resumeRestored lets the client fetch the partitions that have been restored.
func (s *session) resumeRestored() {
	s.restoredMu.Lock()
	restored := s.restored
	s.restored = nil
	s.restoredMu.Unlock()
	for _, p := range restored {
		if s.Part(p.ID) != p {
			continue
		}
		if next := p.Next.Load(); p.startedAt.failures > 0 || next != p.startedAt.first { // the client is elsewhere
			s.Seek(p.ID, next)
		}
		p.fetching = true
		s.Client.ResumeFetchPartitions(s.Only(p.ID))
	}
}

// withGrantHints is kafka.WithGrantHint for the group and the transactions of the session.
func (s *session) withGrantHints(err error) error {
	err = kafka.WithGrantHint(err, "Read", kafka.OfGroup, s.Group)
	return kafka.WithGrantHint(err, "Write", kafka.OfTransactionalID, s.InstanceID())
}
