package shown

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// ErasureLog reads the records of a topic; *kafka.Reader is one.
type ErasureLog interface {
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
	next   int64 // the offset to read
}

// NewErasures makes one.
func NewErasures(log ErasureLog, logger *slog.Logger) *Erasures {
	return &Erasures{log: log, logger: logger}
}

// Open makes Run begin with the records that come after now. Call it before the first name is written.
func (e *Erasures) Open(ctx context.Context) error {
	_, end, err := e.log.Bounds(ctx, schemas.Erasures, 0)
	if err != nil {
		return fmt.Errorf("looking for the end of the erasures: %w", err)
	}
	e.next = end
	return nil
}

// retryAfter is after how long Run tries again what Kafka has refused.
const retryAfter = 10 * time.Second

// Run passes erased users to erased until ctx ends, each time 1 to schemas.MaxErasures of them. A user may
// come twice.
func (e *Erasures) Run(ctx context.Context, erased func(users []schemas.UserID)) error {
	faulty := false // and that was logged
	for {
		err := e.tail(ctx, func(users []schemas.UserID) {
			if faulty {
				e.logger.Info("the erasures of users can be read again")
				faulty = false
			}
			erased(users)
		})
		if ctx.Err() != nil {
			return nil
		}
		if !faulty {
			faulty = true
			e.logger.Warn("the erasures of users cannot be read; users who go on sending heartbeats after one may have no name for some minutes",
				"retry_within", retryAfter, "error", err)
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// tail follows the topic until an error.
func (e *Erasures) tail(ctx context.Context, erased func(users []schemas.UserID)) error {
	bounded, cancel := context.WithTimeout(ctx, retryAfter)
	start, end, err := e.log.Bounds(bounded, schemas.Erasures, 0)
	cancel()
	if err != nil {
		return err
	}
	if e.next < start || e.next > end { // records have expired, or the topic was recreated
		e.next = start
	}
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
