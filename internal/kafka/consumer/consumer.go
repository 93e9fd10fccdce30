package consumer

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/schemas"
)

// Consumer reads a topic at least once. See doc.go.
type Consumer[T any] struct {
	*member.Loop
	options
	decode  func(*schemas.Record) (T, error)
	handler Handler[T]
	current atomic.Pointer[session[T]] // for tests
}

type options struct {
	watermarkGroup   string
	watermarkInput   schemas.Topic
	fromEnd          bool
	withoutGroup     bool
	minBatchInterval time.Duration
}

// Option changes how a topic is read.
type Option func(*options)

// WatermarksOf gives a WatermarkHandler the progress of the upstream group: the one that writes the
// topic, reads input, and commits schemas.Checkpoint. Both topics must have the same partitions.
func WatermarksOf(group string, input schemas.Topic) Option {
	return func(o *options) { o.watermarkGroup, o.watermarkInput = group, input }
}

// FromEnd starts a partition without a committed offset at its end rather than at its start.
func FromEnd() Option { return func(o *options) { o.fromEnd = true } }

// WithoutGroup reads all partitions in this process, from the start (or the end) every time, and
// commits nothing: for what every process must know. The group is then a name for logs and metrics.
func WithoutGroup() Option { return func(o *options) { o.withoutGroup = true } }

// MinBatchInterval leaves at least this time between the beginnings of two batches of a partition,
// unless Config.MaxPollRecords are waiting: for handlers to which a batch costs much and a record
// little. A record that comes after a longer pause is applied at once.
func MinBatchInterval(interval time.Duration) Option {
	return func(o *options) { o.minBatchInterval = interval }
}

// New prepares a Consumer. The records of topic are read committed and decoded with decode. Those
// that schemas.IsInvalid says can never be decoded go to the dead-letter topic through producer, and
// the rest of the batch goes on. Any other error of decode counts as one of Apply. What decode
// returns may point into the record's bytes. metrics may be nil.
func New[T any](cfg kafka.Config, group string, topic schemas.Topic,
	decode func(*schemas.Record) (T, error), handler Handler[T],
	producer *kafka.Producer, log *slog.Logger, metrics *kafka.Metrics, options ...Option) *Consumer[T] {
	c := &Consumer[T]{Loop: member.NewLoop(cfg, group, topic, producer, log, metrics), decode: decode, handler: handler}
	for _, option := range options {
		option(&c.options)
	}
	c.WithoutGroup = c.withoutGroup
	c.RestartMessage = "the consumer failed; it reads on from the stored offsets after a pause"
	return c
}

// Run consumes until ctx ends and returns when everything has stopped. The batches in hand have been
// applied and committed by then, as far as Config.StopTimeout allowed. The error is nil unless the
// configuration is wrong, or an older process runs under the same instance name. It may be called
// once.
func (c *Consumer[T]) Run(ctx context.Context) error {
	return c.RunSessions(ctx, func(ctx context.Context) (bool, error) {
		s := &session[T]{Session: member.NewSession[*worker[T]](c.Loop), consumer: c, ended: map[int32]<-chan struct{}{}}
		err := s.run(ctx)
		if ctx.Err() != nil {
			err = nil
		}
		return s.applied.Load(), err
	})
}
