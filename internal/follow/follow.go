// Package follow reads a topic of one partition for as long as a process runs.
package follow

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
	// each ends it, or a retry would not help, as when the topic is missing. An error of each is returned
	// unchanged.
	Tail(ctx context.Context, topic schemas.Topic, partition int32, from int64, each func(*schemas.Record) error) error
}

// Topic reads a topic. One goroutine at a time may use it.
type Topic struct {
	Log    Log
	Logger *slog.Logger
	Topic  schemas.Topic
	// Failing is the line in the log when it cannot be read.
	Failing string
	// Next is the offset to read.
	Next int64

	skipped int64     // records that do not count, since the last line about one
	logged  time.Time // when that was
}

// retryAfter is after how long Run tries again what Kafka has refused.
const retryAfter = 10 * time.Second

// AtEnd makes Run begin with the records that come after now.
func (t *Topic) AtEnd(ctx context.Context) error {
	var err error
	if _, t.Next, err = t.Log.Bounds(ctx, t.Topic, 0); err != nil {
		return fmt.Errorf("looking for the end of the topic %s: %w", t.Topic, err)
	}
	return nil
}

// Run passes records to each until ctx ends. A record may come twice. An error of each is logged, at most one a minute.
func (t *Topic) Run(ctx context.Context, each func(*schemas.Record) error) error {
	faulty := false // and that was logged
	for {
		err := t.tail(ctx, func(r *schemas.Record) error {
			if faulty {
				t.Logger.Info("the topic can be read again", "topic", t.Topic)
				faulty = false
			}
			return each(r)
		})
		if ctx.Err() != nil {
			return nil
		}
		if !faulty {
			faulty = true
			t.Logger.Warn(t.Failing, "retry_within", retryAfter, "error", err)
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// tail reads until an error.
func (t *Topic) tail(ctx context.Context, each func(*schemas.Record) error) error {
	bounded, cancel := context.WithTimeout(ctx, retryAfter)
	start, end, err := t.Log.Bounds(bounded, t.Topic, 0)
	cancel()
	if err != nil {
		return err
	}
	if t.Next < start || t.Next > end { // records have expired, or the topic was recreated
		t.Next = start
	}
	return t.Log.Tail(ctx, t.Topic, 0, t.Next, func(r *schemas.Record) error {
		t.Next = r.Offset + 1
		if err := each(r); err != nil {
			t.skip(r, err)
		}
		return nil
	})
}

func (t *Topic) skip(r *schemas.Record, err error) {
	if t.skipped++; time.Since(t.logged) < time.Minute {
		return
	}
	t.Logger.Error("a record does not count", "topic", t.Topic, "offset", r.Offset, "records", t.skipped, "error", err)
	t.logged, t.skipped = time.Now(), 0
}
