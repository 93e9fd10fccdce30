package erasures

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Log reads the records of a topic; *kafka.Reader is one.
type Log interface {
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, topic schemas.Topic, partition int32) (start, end int64, err error)
	// Tail calls each for the records from offset from on, in order, as they are appended, until ctx or
	// each ends it, or a retry would not help. An error of each is returned unchanged.
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

// Open makes Run begin with the records that come after now. Call it before the first name is written.
func (f *Follower) Open(ctx context.Context) error {
	_, end, err := f.log.Bounds(ctx, schemas.Erasures, 0)
	if err != nil {
		return fmt.Errorf("looking for the end of the erasures: %w", err)
	}
	f.next = end
	return nil
}

// retryAfter is after how long Run tries again what Kafka has refused.
const retryAfter = 10 * time.Second

// Run passes erased users to erased until ctx ends, each time 1 to schemas.MaxErasures of them. A user may
// come twice.
func (f *Follower) Run(ctx context.Context, erased func(users []schemas.UserID)) error {
	for failing := false; ; {
		err := f.tail(ctx, func(users []schemas.UserID) {
			if failing {
				f.logger.Info("the erasures of users can be read again")
				failing = false
			}
			erased(users)
		})
		if ctx.Err() != nil {
			return nil
		}
		if !failing {
			failing = true
			f.logger.Warn("the erasures of users cannot be read; users who go on sending heartbeats after one may have no name for some minutes",
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
func (f *Follower) tail(ctx context.Context, erased func(users []schemas.UserID)) error {
	start, end, err := f.log.Bounds(ctx, schemas.Erasures, 0)
	switch {
	case err != nil:
		return err
	case f.next < 0:
		f.next = end
	case f.next < start || f.next > end: // records have expired, or the topic was recreated
		f.next = start
	}
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
