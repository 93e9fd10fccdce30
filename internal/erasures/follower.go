package erasures

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// Log reads the records of a topic; *kafka.Reader is one.
type Log interface {
	// TopicID is the id of the topic. kafka.IsMissingTopic holds for the error if it does not exist.
	TopicID(ctx context.Context, topic schemas.Topic) (schemas.TopicID, error)
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error)
	// Tail calls each for the records from offset from on, in order, as they are appended, until ctx or
	// each ends it, or a retry would not help, as when the topic is missing. An error of each is returned
	// unchanged.
	Tail(ctx context.Context, topic schemas.Topic, partition int32, from int64, each func(*schemas.Record) error) error
}

// Follower reads who was erased from when it was opened on. One goroutine at a time may use it.
type Follower struct {
	log    Log
	logger *slog.Logger
	next   int64 // the offset to read; -1: not known
}

// NewFollower makes a Follower.
func NewFollower(log Log, logger *slog.Logger) *Follower {
	return &Follower{log: log, logger: logger, next: -1}
}

// Open makes Run begin with the records that come after now. Call it before the first name is written. A
// pipeline of an earlier build does not have the topic, and its users no right to it: that is no error, and Run
// logs it.
func (f *Follower) Open(ctx context.Context) error {
	_, end, err := f.bounds(ctx)
	switch {
	case err == nil:
		f.next = end
	case !kafka.IsMissingTopic(err) && !kafka.IsUnauthorized(err):
		return fmt.Errorf("looking for the end of the erasures: %w", err)
	}
	return nil
}

// bounds are those of the topic. After an error that it is missing, all of a topic that appears later is new.
func (f *Follower) bounds(ctx context.Context) (start, end int64, err error) {
	_, err = f.log.TopicID(ctx, schemas.Erasures) // Bounds would wait for a topic that is missing
	if !kafka.IsMissingTopic(err) && !kafka.IsUnauthorized(err) {
		start, end, err = f.log.Bounds(ctx, schemas.Erasures, 0)
	}
	if kafka.IsMissingTopic(err) {
		f.next = 0
	}
	return start, end, err
}

// retryAfter is after how long Run tries again what Kafka has refused.
const retryAfter = 10 * time.Second

// What Run logs once until erasures can be read again.
const (
	unreadable = "the erasures of users cannot be read; users who go on sending heartbeats after one may have no name for some minutes"
	noTopic    = "the topic of erasures does not exist; users who go on sending heartbeats after an erasure may have no name " +
		"for some minutes; create it with: stillhere topics apply"
)

// Run passes erased users to erased until ctx ends, each time 1 to schemas.MaxErasures of them. A user may
// come twice.
func (f *Follower) Run(ctx context.Context, erased func(users []schemas.UserID)) error {
	fault := "" // that was logged
	works := func() {
		if fault != "" {
			f.logger.Info("the erasures of users can be read again")
			fault = ""
		}
	}
	for {
		err := f.tail(ctx, func() {
			if fault == noTopic {
				works()
			}
		}, func(users []schemas.UserID) {
			works() // who may describe the topic may not read it
			erased(users)
		})
		if ctx.Err() != nil {
			return nil
		}
		now := unreadable
		if kafka.IsMissingTopic(err) {
			now, f.next = noTopic, 0
		}
		if now != fault {
			fault = now
			f.logger.Warn(fault, "retry_within", retryAfter, "error", err)
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// tail follows the topic until an error. It calls found when the topic exists.
func (f *Follower) tail(ctx context.Context, found func(), erased func(users []schemas.UserID)) error {
	bounded, cancel := context.WithTimeout(ctx, retryAfter)
	start, end, err := f.bounds(bounded)
	cancel()
	switch {
	case err != nil:
		return err
	case f.next < 0:
		f.next = end
	case f.next < start || f.next > end: // records have expired, or the topic was recreated
		f.next = start
	}
	found()
	return f.log.Tail(ctx, schemas.Erasures, 0, f.next, func(r *schemas.Record) error {
		f.next = r.Offset + 1
		users, err := schemas.DecodeErasures(r.Value)
		if err != nil {
			f.logger.Error("a record with erased users cannot be read; it is skipped", "offset", r.Offset, "error", err)
			return nil
		}
		erased(users)
		return nil
	})
}
