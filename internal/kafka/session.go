package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	t     *Transform
	name  string // of the input topic
	group *kgo.GroupTransactSession
	*kgo.Client

	ctx    context.Context // ends with the session, not with the shutdown
	cancel context.CancelFunc
	work   sync.WaitGroup // everything started here

	mu       sync.Mutex
	parts    map[int32]*partition
	restored []*partition // whose fetching the loop must resume
	failed   error        // the first one

	wakeup     atomic.Pointer[context.CancelFunc] // of the poll under way
	hurry      atomic.Bool                        // a rebalance waits for us to commit
	told       atomic.Bool                        // the group has said at least once which partitions are ours
	stopping   atomic.Bool                        // the process ends: nothing is tried again
	rebalanced atomic.Bool                        // the client will refuse the next commit for a revocation that is over
	commitsFor map[int32]schemas.Commit           // between the two callbacks of an offset fetch

	deadLetters int32        // partitions of the dead letter topic
	batches     []batch      // what is to be handled; a partition that is in it is not fetched
	broken      []*partition // whose task has failed; to be restored after the next commit
	waiting     bool         // a task has been due once
	inTxn       bool
	begunAt     time.Time     // of the transaction
	outputs     []*kgo.Record // of the transaction, until it is committed
	outputBytes int
	outputParts int // records and slices that they come of
	produceErr  atomic.Pointer[error]
	written     atomic.Int64 // records of transactions that were acknowledged
	forwards    *forwards
	outputSince time.Time // when what is pending came up; zero for nothing
	offsetSince time.Time
	lastBegun   time.Time // when the last commit began
	lastCommit  time.Time // when it was over
	commits     int
	own         owner        // the transaction being committed; the loop's, inside of commit
	committed   owner        // the last that was; of the same producer as own, or one before it
	former      []owner      // of producers that this session had before
	epoch       atomic.Int32 // of own
}

// batch is what is to be handled of one partition: what a poll brought, or what was
// left of that. A partition in the middle of a record may have no other.
type batch struct {
	part    *partition
	records []*kgo.Record
	held    bool // from an earlier round; its partition's fetching pauses
}

func newSession(t *Transform) *session {
	s := &session{t: t, name: t.input.Name(t.cfg.Prefix), parts: map[int32]*partition{}, commitsFor: map[int32]schemas.Commit{}, forwards: newForwards()}
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
	s.t.current.Store(s)
	defer s.t.current.Store(nil)
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
		if err := s.settleRebalance(); err != nil {
			return err
		}
		if err := s.sort(fetches); err != nil {
			return err
		}
		s.resumeRestored()
		s.rouse()
		if err := s.process(); err != nil {
			return err
		}
		stopping := stop.Err() != nil
		if s.due(stopping || len(s.broken) > 0 || s.full()) {
			if err := s.commit(); err != nil {
				return err
			}
		}
		if stopping {
			return nil
		}
		s.revive()
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
		wait = min(wait, restPoll) // only what has come already
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	s.wakeup.Store(&cancel)
	if s.hurry.Load() || stop.Err() != nil || s.failure() != nil {
		cancel()
	}
	return s.PollRecords(ctx, s.t.cfg.MaxPollRecords)
}

// restPoll is how long a poll waits when there is something left to do. Without any
// time it would bring nothing.
const restPoll = time.Millisecond

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
	share := s.share(len(s.batches))
	for i := range s.batches {
		s.batches[i].part.work <- portion{s.batches[i].records, share}
	}
	var fatal error
	rest := s.batches[:0]
	for _, b := range s.batches {
		var result handled
		select {
		case result = <-b.part.results:
		case <-s.ctx.Done():
			return errors.Join(fatal, s.failure())
		}
		if fatal != nil {
			continue
		}
		if result.err != nil {
			s.setBack(b.part, result.err)
			continue
		}
		if s.full() {
			fatal = s.commit()
		}
		if fatal == nil {
			fatal = s.send(b.part, &result)
		}
		b.records = result.rest
		if result.halfway || len(result.rest) > 0 {
			rest = append(rest, s.hold(b))
		} else if b.held {
			s.ResumeFetchPartitions(map[string][]int32{s.name: {b.part.id}})
		}
	}
	clear(s.batches[len(rest):])
	s.batches = rest
	return fatal
}

// hold keeps a batch for the next round.
func (s *session) hold(b batch) batch {
	if !b.held {
		s.PauseFetchPartitions(map[string][]int32{s.name: {b.part.id}})
		b.held = true
	}
	return b
}

// send writes what one partition put out into the transaction.
func (s *session) send(p *partition, result *handled) error {
	now := time.Now()
	p.progress.Store(now.UnixNano())
	p.done, p.checkpoint, p.halfway = result.next, result.checkpoint, result.halfway
	p.dirty, p.handledAny = true, true
	p.due, p.kept, p.keeps = result.due, result.kept, result.keeps
	s.waiting = s.waiting || !p.due.IsZero()
	s.t.metrics.handled(result.records)
	if s.offsetSince.IsZero() {
		s.offsetSince = now
	}
	if len(result.out.Forwards) > 0 {
		s.noteOutput(now)
		s.t.metrics.forwarded(len(result.out.Forwards))
		s.forwards.send(s.ctx, s.t.producer, result.out.Forwards)
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
				name, head = topic.Name(s.t.cfg.Prefix), s.t.cfg.Heads[topic]
			}
			outgoing(&slab[i], name, head, &records[i])
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

// each gives a snapshot of the assigned partitions.
func (s *session) each() []*partition {
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
	return generation >= 0 && s.told.Load()
}

func (s *session) resumeRestored() {
	s.mu.Lock()
	restored := s.restored
	s.restored = nil
	s.mu.Unlock()
	for _, p := range restored {
		if s.part(p.id) == p {
			if next := p.next.Load(); p.began.failures > 0 || next != p.began.first { // the client is elsewhere
				s.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.name: {p.id: {Epoch: -1, Offset: next}}})
			}
			p.fetching = true
			s.ResumeFetchPartitions(map[string][]int32{s.name: {p.id}})
		}
	}
}

func (s *session) status() []PartitionStatus {
	var all []PartitionStatus
	for _, p := range s.each() {
		all = append(all, p.status())
	}
	sortStatus(all)
	return all
}
