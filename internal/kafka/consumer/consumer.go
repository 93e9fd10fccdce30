package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Handler takes the records of the partitions that a Follower reads. Calls for
// one partition come one at a time and in order, calls for different partitions
// at the same time.
type Handler[T any] interface {
	// Apply makes the batch take effect; when it returns nil, the batch's offsets
	// may be committed. A batch is never empty. An error means that the world is
	// unwell: the same batch is tried again, after a pause, until it works or ctx
	// ends. ctx outlasts the shutdown for as long as it takes to finish, up to
	// Config.StopTimeout. After a crash a batch may come again, in other cuts. A
	// Starter may return an error with a method ResetPosition() bool that says true: the
	// partition is then read again from where Start says.
	Apply(ctx context.Context, batch stream.Batch[T]) error
}

// PositionedHandler is a Handler that keeps the offsets itself.
type PositionedHandler interface {
	// Start is called when a partition is taken up, before anything else about it.
	// at is the partition as it is, with what the group has committed. What it
	// returns is the next offset to read, -1 standing for the group's commit or the
	// start of the log. When the topic of that is known to be another than at's, the
	// topic was made anew: it is read from its start whatever the offset. An error is
	// tried again, and holds up the other partitions that were given with this one.
	Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error)
}

// AsyncHandler is a Handler whose Apply may return before the batch has taken effect, so
// that a piece of it that has to wait does not hold up what comes behind it. Only what
// lies before the first piece in hand is committed: after a crash that piece comes
// again, and what came behind it does too.
type AsyncHandler interface {
	// InHand is the offset of the first record of the partition that has not taken
	// effect yet, of all that were applied; false when there is none. Called from the
	// partition's goroutine.
	InHand(partition int32) (first int64, any bool)
	// Finish is called after the last Apply, when the partition goes. It returns when
	// nothing works on the partition any more, soon after ctx ends at the latest, and
	// says what InHand would. After it the partition is forgotten.
	Finish(ctx context.Context, partition int32) (first int64, any bool)
}

// WatermarkHandler is a Handler that wants to know how far it is even when nothing
// happens.
type WatermarkHandler interface {
	// Watermark says that everything that the group before committed up to this
	// log time has been applied. It comes from the partition's goroutine, in
	// order with Apply. An error is logged; there will be another one.
	Watermark(ctx context.Context, partition int32, logTime schemas.Millis) error
}

// Consumer reads a topic at least once. See doc.go.
type Consumer[T any] struct {
	cfg           kafka.Config
	group         string
	topic         schemas.Topic
	decode        func(*schemas.Record) (T, error)
	handler       Handler[T]
	producer      *kafka.Producer
	log           *slog.Logger
	metrics       kafka.GroupMetrics
	deadLetterLog *rate.Sometimes // what is logged of rejected records
	options       options

	instances   *kafka.InstanceGuard
	reader      *kafka.Reader // made by Run
	deadLetters int32         // partitions of the dead letter topic, known to Run
	current     atomic.Pointer[session[T]]
}

type options struct {
	watermarkGroup   string
	watermarkInput   schemas.Topic
	fromEnd          bool
	withoutGroup     bool
	minBatchInterval time.Duration
}

// Option changes how a topic is followed.
type Option func(*options)

// WatermarksOf gives the handler, if it is a Watermarker, the progress of the
// group that writes the topic, reading input, whose commits carry
// schemas.Checkpoint. Both topics must have the same partitions.
func WatermarksOf(group string, input schemas.Topic) Option {
	return func(o *options) { o.watermarkGroup, o.watermarkInput = group, input }
}

// FromEnd starts a partition that was never committed at its end rather than at
// its start.
func FromEnd() Option { return func(o *options) { o.fromEnd = true } }

// WithoutGroup reads all partitions in this process, from the start (or the end) every
// time, and commits nothing: for what every process must know. The group's name
// is then only one for logs and metrics.
func WithoutGroup() Option { return func(o *options) { o.withoutGroup = true } }

// MinBatchInterval leaves at least this time between the beginnings of two batches of a
// partition, unless Config.MaxPollRecords are waiting: for handlers to whom a batch
// costs much and a record little. What comes after a longer silence is handed on
// at once.
func MinBatchInterval(interval time.Duration) Option {
	return func(o *options) { o.minBatchInterval = interval }
}

// New prepares a Follower. The records of topic are read committed and
// decoded with decode; those that schemas.IsInvalid says can never be read are
// set aside in the dead letter topic through producer, and the rest of the batch
// goes on. Any other error of decode counts as one of Apply. What decode returns
// may point into the record's bytes. metrics may be nil.
func New[T any](cfg kafka.Config, group string, topic schemas.Topic, decode func(*schemas.Record) (T, error), handler Handler[T],
	producer *kafka.Producer, log *slog.Logger, metrics *kafka.Metrics, options ...Option) *Consumer[T] {
	f := &Consumer[T]{
		cfg: cfg.WithDefaults(), group: cfg.GroupName(group), topic: topic, decode: decode, handler: handler, producer: producer,
		log: log.With("group", cfg.GroupName(group)), metrics: metrics.OfGroup(group),
		instances: kafka.NewInstanceGuard(cfg, cfg.GroupName(group), log.With("group", cfg.GroupName(group))), deadLetterLog: kafka.DeadLetterLogLimit(),
	}
	for _, option := range options {
		option(&f.options)
	}
	return f
}

// Run follows until ctx ends; it returns when everything has stopped: the
// batches in hand have been applied and committed by then, as far as
// Config.StopTimeout allowed. The error is nil unless the follower was set up
// wrongly, or an older process runs under the same instance name. It may be called
// once.
func (c *Consumer[T]) Run(ctx context.Context) error {
	validate := c.cfg.ValidateMember
	if c.options.withoutGroup {
		validate = c.cfg.Validate
	}
	if err := validate(); err != nil {
		return fmt.Errorf("consuming %s as %s: %w", c.topic, c.group, err)
	}
	reader, err := kafka.NewReader(c.cfg, c.log)
	if err != nil {
		return fmt.Errorf("consuming %s as %s: %w", c.topic, c.group, err)
	}
	defer reader.Close()
	c.reader = reader
	defer c.metrics.Watch(c.Status)()
	for failures := 0; ; {
		begun := newSession(c)
		err := begun.run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if begun.applied.Load() {
			failures = 0
		}
		failures++
		wait := kafka.Backoff(failures)
		c.metrics.SessionRestarted(kafka.ReasonOf(err))
		if kafka.IsFenced(err) {
			wait = kafka.FencedBackoff(failures)
		}
		c.log.Error("the consumer failed; it reads on from the stored offsets after a pause", "error", kafka.ExplainConnection(err), "retry_within", wait)
		if kafka.IsFenced(err) {
			if err := c.instances.Resolve(ctx, reader.Client, wait); err != nil {
				return fmt.Errorf("consuming %s as %s: %w", c.topic, c.group, err)
			}
		} else {
			kafka.Pause(ctx, wait)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Status is a snapshot of the partitions this process has.
func (c *Consumer[T]) Status() []kafka.PartitionStatus {
	if s := c.current.Load(); s != nil {
		return s.status()
	}
	return nil
}

// Ready is nil when the process is in the group and has applied what there was
// in all its partitions; else it says what is missing.
func (c *Consumer[T]) Ready() error {
	s := c.current.Load()
	if s == nil || !s.joined() {
		return errors.New("not in the consumer group yet")
	}
	return kafka.CheckReady(s.status())
}
