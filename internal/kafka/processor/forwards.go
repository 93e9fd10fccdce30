package processor

import (
	"context"
	"sync/atomic"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// forwards are records on their way outside of the transaction.
type forwards struct {
	open   atomic.Int64
	failed atomic.Pointer[error]
	signal chan struct{} // filled when open has become 0
}

func newForwards() *forwards { return &forwards{signal: make(chan struct{}, 1)} }

func (f *forwards) send(ctx context.Context, producer *kafka.Producer, outs []schemas.Outgoing) {
	f.open.Add(int64(len(outs)))
	for i := range outs {
		producer.Append(ctx, outs[i], func(err error) {
			if err != nil {
				f.failed.CompareAndSwap(nil, &err)
			}
			if f.open.Add(-1) == 0 {
				select {
				case f.signal <- struct{}{}:
				default:
				}
			}
		})
	}
}

// wait waits until all are acknowledged.
func (f *forwards) wait(ctx context.Context) error {
	for f.open.Load() > 0 {
		select {
		case <-f.signal:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := f.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// maxHints bounds the hints under way of one Processor.
const maxHints = 4096

// hints counts hints under way. Nobody waits for them: a closing Producer delivers or drops them.
type hints struct{ open, failed atomic.Int64 }

// send appends hints and returns how many were lost since the last call.
func (h *hints) send(ctx context.Context, producer *kafka.Producer, outs []schemas.Outgoing) (lost int64) {
	for i := range outs {
		if h.open.Load() >= maxHints {
			lost++
			continue
		}
		h.open.Add(1)
		producer.Append(ctx, outs[i], func(err error) {
			if err != nil {
				h.failed.Add(1)
			}
			h.open.Add(-1)
		})
	}
	return lost + h.failed.Swap(0)
}
