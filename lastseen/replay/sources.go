package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Log is the topic of the transitions. Any goroutine may use it, and several at
// the same time.
type Log interface {
	Partitions(ctx context.Context) (int32, error)
	// Topic is the topic that has the name now.
	Topic(ctx context.Context) (schemas.TopicID, error)
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, partition int32) (start, end int64, err error)
	// OffsetSince is the first offset whose record was published at or after since,
	// or somewhat earlier; the end if there is none.
	OffsetSince(ctx context.Context, partition int32, since schemas.Millis) (int64, error)
	// Read calls each for the committed records from offset from up to but without
	// to, in order. ErrOvertaken when some of them are gone. The record is valid
	// until each returns, whose error ends the reading and is returned unchanged.
	Read(ctx context.Context, partition int32, from, to int64, each func(*schemas.Record) error) error
}

// Archive is the durable store.
type Archive interface {
	// Place is how far the partition has been written to the store.
	Position(ctx context.Context, partition int32) (store.Position, error)
	// Changes calls each for the changes of the range, ordered as Entry.Compare
	// does. The entry is valid until each returns, whose error ends the reading and
	// is returned unchanged.
	Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) error
}

// ErrOvertaken says that retention has taken records before they were read.
var ErrOvertaken = errors.New("retention has taken records of the topic before they were read; start again")

// ErrRecreated says that the topic was deleted and created again, so that the offsets
// meant so far are those of a log that is gone.
var ErrRecreated = errors.New("the topic was deleted and created again while it was read; start again")

// checkSameTopic returns ErrRecreated if the name stands for another topic by now.
func checkSameTopic(ctx context.Context, log Log, topic schemas.TopicID) error {
	now, err := log.Topic(ctx)
	if err == nil && now.Differs(topic) {
		err = fmt.Errorf("%w: its id is %s, and was %s", ErrRecreated, now, topic)
	}
	return err
}

// blockRows is how many rows go from a source to the merge at a time, and
// blocksAhead how many such blocks a source may be ahead.
const (
	blockRows   = 2048
	blocksAhead = 2
)

// source is a run of rows that another goroutine reads.
type source struct {
	blocks chan []store.Entry
	free   chan []store.Entry
	ended  chan error // has its error when blocks is closed

	// Owned by the merge.
	rows   []store.Entry
	next   int
	latest schemas.Millis // of the rows up to and including next
}

// startSource reads in a goroutine of its own, which ends when read does. read
// hands rows to put, which copies them.
func startSource(ctx context.Context, read func(ctx context.Context, put func(*store.Entry) error) error) *source {
	s := &source{blocks: make(chan []store.Entry, blocksAhead), free: make(chan []store.Entry, blocksAhead+2), ended: make(chan error, 1)}
	go func() {
		block := make([]store.Entry, 0, blockRows)
		send := func() error {
			select {
			case s.blocks <- block:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case block = <-s.free:
				block = block[:0]
			default:
				block = make([]store.Entry, 0, blockRows)
			}
			return nil
		}
		err := read(ctx, func(e *store.Entry) error {
			block = append(block, *e)
			if len(block) < blockRows {
				return nil
			}
			return send()
		})
		if err == nil && len(block) > 0 {
			err = send()
		}
		s.ended <- err
		close(s.blocks)
	}()
	return s
}

// advance makes the next row the current one; false at the end, which may be an
// error.
func (s *source) advance() (bool, error) {
	s.next++
	if s.next >= len(s.rows) {
		if s.rows != nil {
			select {
			case s.free <- s.rows:
			default:
			}
		}
		rows, more := <-s.blocks
		if !more {
			s.rows = nil
			return false, <-s.ended
		}
		s.rows, s.next = rows, 0
	}
	s.latest = max(s.latest, s.rows[s.next].At)
	return true, nil
}
