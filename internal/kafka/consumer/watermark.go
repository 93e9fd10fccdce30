package consumer

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

// pendingWatermark means: when everything before offset has been applied, everything that the
// upstream group committed up to logTime has.
type pendingWatermark struct {
	offset  int64
	logTime schemas.Millis
}

// maxPendingWatermarks bounds the memory of a worker that is far behind.
const maxPendingWatermarks = 64

// watchUpstream asks again and again for the upstream group's progress.
func (s *session[T]) watchUpstream() {
	for range tick.Later(s.Ctx, s.Config.WatermarkInterval) {
		ctx, cancel := context.WithTimeout(s.Ctx, max(s.Config.WatermarkInterval, 5*time.Second))
		err := s.pollUpstream(ctx)
		cancel()
		if err != nil && s.Ctx.Err() == nil {
			s.Log.Warn("reading the upstream group's progress failed; it is retried", "error", err)
		}
	}
}

// pollUpstream asks for the commits first and for the ends of the topic second: the output of the
// commits lies before those ends. The ends include open transactions, because one of them may be
// committed already and its marker not yet written.
func (s *session[T]) pollUpstream(ctx context.Context) error {
	workers := s.Parts()
	if len(workers) == 0 {
		return nil
	}
	var ids []int32
	for _, w := range workers {
		ids = append(ids, w.ID)
	}
	group, input := s.Config.GroupName(s.consumer.watermarkGroup), s.consumer.watermarkInput.Name(s.Config.Prefix)
	commits, err := kafka.FetchCommitted(ctx, s.Reader.Client, group, input, ids, false)
	if err != nil {
		return err
	}
	ends, err := kafka.ListOffsets(ctx, s.Reader.Client, s.Name, ids, kafka.AtEnd)
	if err != nil {
		return err
	}
	for _, w := range workers {
		end, ok := ends[w.ID]
		if !ok {
			continue
		}
		w.End.Store(end)
		commit, ok := commits[w.ID]
		if !ok {
			continue
		}
		checkpoint, err := schemas.DecodeCheckpoint(commit.Metadata)
		if err != nil {
			return err
		}
		w.addPending(pendingWatermark{end, checkpoint.LogTime})
	}
	return nil
}

func (w *worker[T]) addPending(m pendingWatermark) {
	w.mu.Lock()
	if len(w.pendingWatermarks) == maxPendingWatermarks {
		// Keep the oldest, which is reached first, and every second of the others.
		thinned := w.pendingWatermarks[:1]
		for i := 2; i < maxPendingWatermarks; i += 2 {
			thinned = append(thinned, w.pendingWatermarks[i])
		}
		w.pendingWatermarks = thinned
	}
	w.pendingWatermarks = append(w.pendingWatermarks, m)
	w.mu.Unlock()
	w.notify()
}

// deliverWatermarks calls the handler with the newest watermark that was reached.
func (w *worker[T]) deliverWatermarks() {
	next := w.Next.Load()
	var reached pendingWatermark
	w.mu.Lock()
	for len(w.pendingWatermarks) > 0 && w.pendingWatermarks[0].offset <= next {
		reached = w.pendingWatermarks[0]
		w.pendingWatermarks = w.pendingWatermarks[1:]
	}
	w.mu.Unlock()
	if int64(reached.logTime) <= w.Watermark.Load() {
		return
	}
	handler := w.consumer.handler.(WatermarkHandler)
	if err := kafka.CatchPanic(func() error { return handler.Watermark(w.ctx, w.ID, reached.logTime) }); err != nil {
		w.log.Warn("the handler refused a watermark; it gets the next one", "error", err)
		return
	}
	w.Watermark.Store(int64(reached.logTime))
}
