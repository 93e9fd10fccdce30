package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Task is the state machine of one partition of the input. Every call comes from
// the goroutine of that partition, one at a time. A Task is thrown away, and a
// new one made, when its partition goes, when a transaction did not commit, and
// when it returned an error.
type Task interface {
	// Restore brings the task to where it was at the commit, emitting nothing. The
	// first record handled afterwards is the one at at.Offset; it is the one at
	// at.LogStart instead when at.Offset is -1, when it lies outside of LogStart to
	// LogEnd, or when at.Metadata is a checkpoint that names another topic id. A
	// PlacedTask says itself which one it is.
	// Records that are gone leave a hole, never more.
	Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error
	// Handle takes the next record of the partition and puts what must be written
	// in out. An error means that the program is wrong: the session starts anew.
	Handle(rec *schemas.Record, out *stream.Outbox) error
	// Checkpoint is the metadata for the commit of everything handled so far.
	Checkpoint() string
}

// PositionedTask is a Task that knows which record it needs next.
type PositionedTask interface {
	Task
	// Next is the offset of the record to be handed to Handle next. It is asked once,
	// after Restore; after a lost commit it may lie beyond the one in at.
	Next() int64
}

// SlicedTask is a Task that puts out in slices what one record leads to. Between two
// slices the loop may commit: Checkpoint then says how far the record has come, and
// the offset committed is that of the record, so that Handle is given it again after
// the next Restore.
type SlicedTask interface {
	Task
	// Pending tells whether the record handled last has more to put out. It is asked
	// after Handle and after Continue.
	Pending() bool
	// Continue puts out the next slice of that record. An error means what one of
	// Handle means.
	Continue(out *stream.Outbox) error
}

// ClosedTask is a Task that gives something back when it is thrown away.
type ClosedTask interface {
	Task
	// Close is called once, after everything else, also where Restore failed.
	Close()
}

// Processor reads the partitions of a topic that its group gives it, hands them
// to tasks, and commits what these write together with the offsets they read
// up to, exactly once. See doc.go.
type Processor struct {
	cfg           kafka.Config
	group         string
	input         schemas.Topic
	outputs       []schemas.Topic
	newTask       func(partition int32) Task
	producer      *kafka.Producer
	log           *slog.Logger
	metrics       kafka.GroupMetrics
	deadLetterLog *rate.Sometimes // what is logged of rejected records

	instances   *kafka.InstanceGuard
	reader      *kafka.Reader // made by Run
	current     atomic.Pointer[session]
	partitions  atomic.Int32 // of the input, as the first session found them
	slowBrokers atomic.Bool  // the brokers take long to commit
	limitShift  atomic.Int32 // how often the bound of a transaction has been halved for them

	mu       sync.Mutex
	failures map[int32]failure // of partitions whose task failed
	stalls   map[int32]failure // of those whose task took too long
}

// failure remembers where a task failed and how often in a row.
type failure struct {
	offset int64
	count  int
	parked bool
}

// New prepares a Transform. producer appends ticks and forwards;
// metrics may be nil.
func New(cfg kafka.Config, group string, input schemas.Topic, newTask func(partition int32) Task,
	producer *kafka.Producer, log *slog.Logger, metrics *kafka.Metrics) *Processor {
	return &Processor{
		cfg: cfg.WithDefaults(), group: cfg.GroupName(group), input: input, outputs: []schemas.Topic{schemas.DeadLetter}, newTask: newTask, producer: producer,
		log: log.With("group", cfg.GroupName(group)), metrics: metrics.OfGroup(group), failures: map[int32]failure{}, stalls: map[int32]failure{},
		instances: kafka.NewInstanceGuard(cfg, cfg.GroupName(group), log.With("group", cfg.GroupName(group))), deadLetterLog: kafka.DeadLetterLogLimit(),
	}
}

// Writes names topics that the tasks write to, so that transactions which Kafka left
// open in them can be found. To be called before Run. Dead letters need no naming.
func (p *Processor) Writes(topics ...schemas.Topic) *Processor {
	p.outputs = append(p.outputs, topics...)
	return p
}

// Run works until ctx ends, and returns when everything has stopped: what was in
// hand has been finished and committed by then, else the error tells why not.
// Whatever goes wrong before that, it starts a new session that restores all
// partitions, after a pause that grows; but when an older process turns out to run
// under the same instance name, it returns an error. It may be called once.
func (p *Processor) Run(ctx context.Context) error {
	if err := p.cfg.ValidateMember(); err != nil {
		return fmt.Errorf("running group %s: %w", p.group, err)
	}
	reader, err := kafka.NewReader(p.cfg, p.log)
	if err != nil {
		return fmt.Errorf("running group %s: %w", p.group, err)
	}
	defer reader.Close()
	p.reader = reader
	defer p.metrics.Watch(p.Status)()
	for failures := 0; ; {
		s := newSession(p)
		err := s.run(ctx)
		if ctx.Err() != nil {
			if !s.pending() {
				return nil // there was nothing in hand
			}
			return err
		}
		s.shrinkLimit(2) // if its last transaction did not end
		if s.commits > 0 {
			failures = 0
		}
		failures++
		wait := p.logRestart(err, failures)
		if kafka.IsFenced(err) {
			if err := p.instances.Resolve(ctx, reader.Client, wait); err != nil {
				return fmt.Errorf("running group %s: %w", p.group, err)
			}
		} else {
			kafka.Pause(ctx, wait)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// logRestart logs why a session ended and tells how long to wait before the next.
func (p *Processor) logRestart(err error, failures int) time.Duration {
	wait := kafka.Backoff(failures)
	reason := kafka.ReasonOf(err)
	p.metrics.SessionRestarted(reason)
	message := "the session ended; all its partitions are restored"
	if kafka.IsFenced(err) {
		// Longer, for the group to show who else there is.
		wait = kafka.FencedBackoff(failures)
		message = "another process has taken this instance name, or the group took this one for dead; " + message
	}
	p.log.Error(message, "reason", reason, "error", kafka.ExplainConnection(err), "retry_within", wait)
	return wait
}

// taskFailed counts failures of a partition's task at an offset, -1 while it was
// being restored, so that a state that can never work is set aside. It returns
// how many there were in a row.
func (p *Processor) taskFailed(partition int32, offset int64) int {
	p.metrics.TaskFailed()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failures[partition]
	if f.offset != offset {
		f = failure{offset: offset}
	}
	f.count++
	if f.count >= p.cfg.MaxFailures && !f.parked {
		f.parked = true
		p.metrics.PartitionParked(partition)
		p.log.Error("ALARM: the partition is parked until this process is restarted: its task fails at the same record again and again",
			"partition", partition, "offset", offset, "times", f.count)
	}
	p.failures[partition] = f
	return f.count
}

// surplus tells whether a partition was added under this process to a topic in
// which users have theirs for ever. No other topic has that partition, and who
// beats in it is somebody whom another one knows.
func (p *Processor) surplus(partition int32) bool {
	return byUser(p.input) && partition >= p.partitions.Load()
}

// countStall counts stalls at a record. What asks servers besides Kafka may have to wait for
// them; other tasks fail by that.
func (p *Processor) countStall(partition int32, offset int64, asksOthers bool) {
	p.mu.Lock()
	f := p.stalls[partition]
	if f.offset != offset {
		f = failure{offset: offset}
	}
	f.count++
	p.stalls[partition] = f
	p.mu.Unlock()
	if !asksOthers {
		p.taskFailed(partition, offset)
	}
}

// stallsAt is how often in a row a partition stalled at an offset.
func (p *Processor) stallsAt(partition int32, offset int64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.stalls[partition]; f.offset == offset {
		return f.count
	}
	return 0
}

func (p *Processor) failuresOf(partition int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[partition].count
}

func (p *Processor) parked(partition int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures[partition].parked
}

// Status is a snapshot of the partitions this process has.
func (p *Processor) Status() []kafka.PartitionStatus {
	if s := p.current.Load(); s != nil {
		return s.status()
	}
	return nil
}

// Ready is nil when the process is in the group and has handled what there was
// in all its partitions; else it says what is missing.
func (p *Processor) Ready() error {
	s := p.current.Load()
	if s == nil || !s.joined() {
		return errors.New("not in the consumer group yet")
	}
	return kafka.CheckReady(s.status())
}

// byUser tells whether a user has a partition in the topic for ever.
func byUser(topic schemas.Topic) bool {
	return slices.ContainsFunc(schemas.Topics(), func(s schemas.TopicSpec) bool { return s.Topic == topic && s.ByUser })
}
