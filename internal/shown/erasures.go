package shown

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// ErasureLog reads the records of a topic; *kafka.Reader is one.
type ErasureLog interface {
	// TopicID is the id of the topic. kafka.IsMissingTopic holds for the error if it does not exist.
	TopicID(ctx context.Context, topic schemas.Topic) (schemas.TopicID, error)
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error)
	// Tail calls each for the records from offset from on, in order, as they are appended, until ctx or
	// each ends it, or a retry would not help, as when the topic is missing. An error of each is returned
	// unchanged.
	Tail(ctx context.Context, topic schemas.Topic, partition int32, from int64, each func(*schemas.Record) error) error
}

// Erasures reads who was erased from when it was opened on. One goroutine at a time may use it.
type Erasures struct {
	log    ErasureLog
	logger *slog.Logger
	next   int64 // the offset to read; -1: not known
}

// NewErasures makes one.
func NewErasures(log ErasureLog, logger *slog.Logger) *Erasures {
	return &Erasures{log: log, logger: logger, next: -1}
}

// Open makes Run begin with the records that come after now. Call it before the first name is written. A
// pipeline of an earlier build does not have the topic, and its users no right to it: that is no error, and Run
// logs it.
func (e *Erasures) Open(ctx context.Context) error {
	_, end, err := e.bounds(ctx)
	switch {
	case err == nil:
		e.next = end
	case !kafka.IsMissingTopic(err) && !kafka.IsUnauthorized(err):
		return fmt.Errorf("looking for the end of the erasures: %w", err)
	}
	return nil
}

// bounds are those of the topic. After an error that it is missing, all of a topic that appears later is new.
func (e *Erasures) bounds(ctx context.Context) (start, end int64, err error) {
	_, err = e.log.TopicID(ctx, schemas.Erasures) // Bounds would wait for a topic that is missing
	if !kafka.IsMissingTopic(err) && !kafka.IsUnauthorized(err) {
		start, end, err = e.log.Bounds(ctx, schemas.Erasures, 0)
	}
	if kafka.IsMissingTopic(err) {
		e.next = 0
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
func (e *Erasures) Run(ctx context.Context, erased func(users []schemas.UserID)) error {
	fault := "" // that was logged
	works := func() {
		if fault != "" {
			e.logger.Info("the erasures of users can be read again")
			fault = ""
		}
	}
	for {
		err := e.tail(ctx, func() {
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
			now, e.next = noTopic, 0
		}
		if now != fault {
			fault = now
			e.logger.Warn(fault, "retry_within", retryAfter, "error", err)
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// tail follows the topic until an error. It calls found when the topic exists.
func (e *Erasures) tail(ctx context.Context, found func(), erased func(users []schemas.UserID)) error {
	bounded, cancel := context.WithTimeout(ctx, retryAfter)
	start, end, err := e.bounds(bounded)
	cancel()
	switch {
	case err != nil:
		return err
	case e.next < 0:
		e.next = end
	case e.next < start || e.next > end: // records have expired, or the topic was recreated
		e.next = start
	}
	found()
	return e.log.Tail(ctx, schemas.Erasures, 0, e.next, func(r *schemas.Record) error {
		e.next = r.Offset + 1
		users, err := schemas.DecodeErasures(r.Value)
		if err != nil {
			e.logger.Error("a record with erased users cannot be read; it is skipped", "offset", r.Offset, "error", err)
			return nil
		}
		erased(users)
		return nil
	})
}
