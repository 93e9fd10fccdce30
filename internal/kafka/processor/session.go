package processor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor/owners"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// session is one membership in the group with one transactional producer. It
// lives until something goes wrong, and takes the state of its partitions with
// it.
//
// Three sorts of goroutine meet here. The loop (run) owns the transaction and
// everything without a remark. The client's callbacks run only while the loop
// is inside poll with nothing pending (BlockRebalanceOnPoll). The partitions
// have one goroutine each.
type session struct {
	proc  *Processor
	name  string // of the input topic
	group *kgo.GroupTransactSession
	*kgo.Client

	ctx    context.Context // ends with the session, not with the shutdown
	cancel context.CancelFunc
	work   sync.WaitGroup // everything started here

	mu       sync.Mutex
	parts    map[int32]*partition
	toResume []*partition // whose fetching the loop must resume
	failed   error        // the first one

	wakeup           atomic.Pointer[context.CancelFunc] // of the poll under way
	rebalanceWaiting atomic.Bool                        // a rebalance waits for us to commit
	assignmentSeen   atomic.Bool                        // the group has said at least once which partitions are ours
	stopping         atomic.Bool                        // the process ends: nothing is tried again
	rebalanced       atomic.Bool                        // the client will refuse the next commit for a revocation that is over
	commitsFor       map[int32]stream.Assignment        // between the two callbacks of an offset fetch

	deadLetters     int32        // partitions of the dead letter topic
	batches         []batch      // what is to be handled; a partition that is in it is not fetched
	failedParts     []*partition // whose task has failed; to be restored after the next commit
	tasksDue        bool         // a task has been due once
	inTxn           bool
	begunAt         time.Time     // of the transaction
	outputs         []*kgo.Record // of the transaction, until it is committed
	outputBytes     int
	outputParts     int // records and slices that they come of
	produceErr      atomic.Pointer[error]
	written         atomic.Int64 // records of transactions that were acknowledged
	forwards        *forwards
	outputSince     time.Time // when what is pending came up; zero for nothing
	offsetSince     time.Time
	lastBegun       time.Time // when the last commit began
	lastCommit      time.Time // when it was over
	commits         int
	currentTxn      owners.Owner   // the transaction being committed; the loop's, inside of commit
	lastCommitted   owners.Owner   // the last that was; of the same producer as own, or one before it
	formerProducers []owners.Owner // of producers that this session had before
	epoch           atomic.Int32   // of own
}

// batch is what is to be handled of one partition: what a poll brought, or what was
// left of that. A partition in the middle of a record may have no other.
type batch struct {
	part    *partition
	records []*kgo.Record
	held    bool // from an earlier round; its partition's fetching pauses
}

func newSession(t *Processor) *session {
	s := &session{proc: t, name: t.input.Name(t.cfg.Prefix), parts: map[int32]*partition{}, commitsFor: map[int32]stream.Assignment{}, forwards: newForwards()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run is the whole life of the session. When stop ends, it commits what is in
// hand and returns nil; otherwise it returns why it cannot go on.
func (s *session) run(stop context.Context) error {
	defer s.cancel()
	if err := s.open(stop); err != nil {
		s.close()
		return err
	}
	s.proc.current.Store(s)
	defer s.proc.current.Store(nil)
	s.work.Go(s.tick)
	s.work.Go(s.watch)
	unhook := context.AfterFunc(stop, func() { s.stopping.Store(true); s.wake() })
	err := s.loop(stop)
	unhook()
	s.close()
	return err
}

// loop is what this package is about.
func (s *session) loop(stop context.Context) error {
	for {
		fetches := s.poll(stop)
		if err := s.failure(); err != nil {
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
		if err := s.process(); err != nil {
			return err
		}
		stopping := stop.Err() != nil
		if s.due(stopping || len(s.failedParts) > 0 || s.transactionFull()) {
			if err := s.commit(); err != nil {
				return err
			}
		}
		if stopping {
			return nil
		}
		s.restartFailed()
		if !s.pending() {
			s.AllowRebalance()
		}
	}
}

// poll waits for records, but not past the time of the next commit. When it
// returns, no rebalance happens until AllowRebalance.
func (s *session) poll(stop context.Context) kgo.Fetches {
	wait := s.untilDue()
	if len(s.batches) > 0 {
		wait = min(wait, backlogPoll) // only what has come already
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	s.wakeup.Store(&cancel)
	if s.rebalanceWaiting.Load() || stop.Err() != nil || s.failure() != nil {
		cancel()
	}
	return s.PollRecords(ctx, s.proc.cfg.MaxPollRecords)
}

// backlogPoll is how long a poll waits when there is something left to do. Without any
// time it would bring nothing.
const backlogPoll = time.Millisecond

// wake ends the poll under way. What it is about must have been set before.
func (s *session) wake() {
	if cancel := s.wakeup.Load(); cancel != nil {
		(*cancel)()
	}
}

// fail ends the session from another goroutine.
func (s *session) fail(err error) {
	s.mu.Lock()
	if s.failed == nil {
		s.failed = err
	}
	s.mu.Unlock()
	s.wake()
}

func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// process lets the partitions handle their records, all at the same time, and
// sends on what they put out; what there was no room for stays in s.batches. A
// transaction that is full is committed before more is put in.
func (s *session) process() error {
	share := s.budgetShare(len(s.batches))
	for i := range s.batches {
		s.batches[i].part.work <- workItem{s.batches[i].records, share}
	}
	var fatal error
	rest := s.batches[:0]
	for _, b := range s.batches {
		var result handleResult
		select {
		case result = <-b.part.results:
		case <-s.ctx.Done():
			return errors.Join(fatal, s.failure())
		}
		if fatal != nil {
			continue
		}
		if result.err != nil {
			s.failPartition(b.part, result.err)
			continue
		}
		if s.transactionFull() {
			fatal = s.commit()
		}
		if fatal == nil {
			fatal = s.produceOutputs(b.part, &result)
		}
		b.records = result.rest
		if result.midRecord || len(result.rest) > 0 {
			rest = append(rest, s.holdBatch(b))
		} else if b.held {
			s.ResumeFetchPartitions(map[string][]int32{s.name: {b.part.id}})
		}
	}
	clear(s.batches[len(rest):])
	s.batches = rest
	return fatal
}

// holdBatch keeps a batch for the next round.
func (s *session) holdBatch(b batch) batch {
	if !b.held {
		s.PauseFetchPartitions(map[string][]int32{s.name: {b.part.id}})
		b.held = true
	}
	return b
}

// produceOutputs writes what one partition put out into the transaction.
func (s *session) produceOutputs(p *partition, result *handleResult) error {
	now := time.Now()
	p.progress.Store(now.UnixNano())
	p.done, p.checkpoint, p.midRecord = result.next, result.checkpoint, result.midRecord
	p.dirty, p.handledAny = true, true
	p.due, p.retained, p.retains = result.due, result.retained, result.retains
	s.tasksDue = s.tasksDue || !p.due.IsZero()
	s.proc.metrics.RecordsHandled(result.records)
	if s.offsetSince.IsZero() {
		s.offsetSince = now
	}
	if len(result.out.Forwards) > 0 {
		s.noteOutput(now)
		s.proc.metrics.RecordsForwarded(len(result.out.Forwards))
		s.forwards.send(s.ctx, s.proc.producer, result.out.Forwards)
	}
	if len(result.out.Records) == 0 {
		return nil
	}
	s.noteOutput(now)
	s.outputParts += result.parts
	if err := s.begin(); err != nil {
		return err
	}
	var topic schemas.Topic
	var name string
	var head []byte
	for records := result.out.Records; len(records) > 0; {
		slab := make([]kgo.Record, min(len(records), slabRecords))
		for i := range slab {
			if records[i].Topic != topic {
				topic = records[i].Topic
				name, head = topic.Name(s.proc.cfg.Prefix), s.proc.cfg.ValueHeaders[topic]
			}
			kafka.ToKafka(&slab[i], name, head, &records[i])
			s.outputs = append(s.outputs, &slab[i])
			s.outputBytes += len(slab[i].Key) + len(slab[i].Value)
			s.Produce(s.ctx, &slab[i], s.produced)
		}
		records = records[len(slab):]
	}
	return nil
}

// slabRecords are allocated together.
const slabRecords = 256

func (s *session) noteOutput(now time.Time) {
	if s.outputSince.IsZero() {
		s.outputSince = now
	}
}

// part is the partition if it is assigned, else nil.
func (s *session) part(id int32) *partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[id]
}

// assigned gives a snapshot of the assigned partitions.
func (s *session) assigned() []*partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*partition, 0, len(s.parts))
	for _, p := range s.parts {
		all = append(all, p)
	}
	return all
}

// joined tells whether the group has let us in and told us what is ours.
func (s *session) joined() bool {
	_, generation := s.GroupMetadata()
	return generation >= 0 && s.assignmentSeen.Load()
}

func (s *session) resumeRestored() {
	s.mu.Lock()
	restored := s.toResume
	s.toResume = nil
	s.mu.Unlock()
	for _, p := range restored {
		if s.part(p.id) == p {
			if next := p.next.Load(); p.startedAt.failures > 0 || next != p.startedAt.first { // the client is elsewhere
				s.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.name: {p.id: {Epoch: -1, Offset: next}}})
			}
			p.fetching = true
			s.ResumeFetchPartitions(map[string][]int32{s.name: {p.id}})
		}
	}
}

func (s *session) status() []kafka.PartitionStatus {
	var all []kafka.PartitionStatus
	for _, p := range s.assigned() {
		all = append(all, p.status())
	}
	kafka.SortStatus(all)
	return all
}

// withGrantHints is the function of that name, for what a session does in its group and
// its transactions.
func (s *session) withGrantHints(err error) error {
	return kafka.WithGrantHint(kafka.WithGrantHint(err, "Read", kafka.OfGroup, s.proc.group), "Write", kafka.OfTransactionalID, s.proc.instanceID())
}
