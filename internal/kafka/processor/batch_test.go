package processor

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// offsets is a task that keeps which records it got.
type offsets struct{ got []int64 }

func (o *offsets) Restore(context.Context, stream.Assignment, stream.ReadFunc) error { return nil }
func (o *offsets) Handle(*schemas.Record, *stream.Outbox) error                      { return nil }
func (o *offsets) Checkpoint() string                                                { return "" }
func (o *offsets) HandleBatch(_ context.Context, records []schemas.Record, _ *stream.Outbox) error {
	for i := range records {
		o.got = append(o.got, records[i].Offset)
	}
	return nil
}

// After an aborted transaction the client goes back to the commit, and what it fetches again comes behind what waits.
func TestRecordsThatComeTwiceInABatchAreHandledOnce(t *testing.T) {
	task := &offsets{}
	s := newSession(New(kafka.Config{MaxPollRecords: 4}, "detector", schemas.Transitions, nil, nil, slog.New(slog.DiscardHandler), nil))
	defer s.Cancel()
	p := newPartition(s, 0)
	p.Next.Store(3)
	var records []*kgo.Record
	for _, offset := range []int64{2, 3, 4, 5, 3, 4, 5, 6, 6, 3} {
		records = append(records, &kgo.Record{Offset: offset})
	}
	for len(records) > 0 {
		records = p.handleBatch(task, workItem{records: records}).rest
	}
	if want := []int64{3, 4, 5, 6}; !slices.Equal(task.got, want) || p.Next.Load() != 7 {
		t.Errorf("%v were handled, want %v; the next one is %d, want 7", task.got, want, p.Next.Load())
	}
}
