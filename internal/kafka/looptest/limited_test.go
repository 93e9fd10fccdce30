//go:build synctests

package looptest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// hoarder reads ahead, at most hoard records, and copies one of them to the deliveries at a time.
type hoarder struct {
	copier
	held []schemas.Record
	most *int // the most records that any hoarder held
}

const hoard = 3

func (h *hoarder) Restore(context.Context, stream.Assignment, stream.ReadFunc) error { return nil }
func (h *hoarder) Checkpoint() string                                                { return "" }
func (h *hoarder) Capacity() int                                                     { return hoard - len(h.held) }

func (h *hoarder) Due() (due time.Time) {
	if len(h.held) > 0 {
		due = time.Now()
	}
	return due
}

func (h *hoarder) Retained() (int64, bool) {
	if len(h.held) == 0 {
		return 0, false
	}
	return h.held[0].Offset, true
}

func (h *hoarder) HandleBatch(_ context.Context, records []schemas.Record, out *stream.Outbox) error {
	for _, r := range records {
		h.held = append(h.held, schemas.Record{Offset: r.Offset, Key: append([]byte(nil), r.Key...)})
	}
	*h.most = max(*h.most, len(h.held))
	if len(h.held) > 0 {
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Deliveries, Partition: h.partition, Key: h.held[0].Key})
		h.held = h.held[1:]
	}
	return nil
}

func TestALimitedTaskHoldsNoMoreThanItTakesAndEachRecordIsHandledOnceThroughRestarts(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		const count = 40
		for i := range count {
			commitTransition(w, fmt.Sprint(i))
		}
		most := 0
		for handled := 0; handled < count; handled = len(w.read(schemas.Deliveries)) {
			cfg := w.cfg
			cfg.InstanceName = "limited"
			p := processor.New(cfg, "detector", schemas.Transitions, func(partition int32) processor.Task {
				return &hoarder{copier: copier{partition: partition}, most: &most}
			}, w.producer, w.log, w.metrics)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			w.until("some more are handled", time.Minute, func() bool { return len(w.read(schemas.Deliveries)) >= min(count, handled+15) })
			cancel()
			if err := <-ended; err != nil {
				w.Fatal(err)
			}
		}
		for i, r := range w.read(schemas.Deliveries) {
			if string(r.Key) != fmt.Sprint(i) {
				w.Fatalf("record %d is %s", i, r.Key)
			}
		}
		if n := len(w.read(schemas.Deliveries)); n != count || most < 2 || most > hoard {
			w.Errorf("%d of %d were handled; %d were held", n, count, most)
		}
	})
}
