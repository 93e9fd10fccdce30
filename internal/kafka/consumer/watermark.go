package consumer

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// pendingWatermark says: whoever has applied everything before offset has applied all that
// the group before it committed up to logTime.
type pendingWatermark struct {
	offset  int64
	logTime schemas.Millis
}

// maxPendingWatermarks bounds what a follower remembers that lags far behind.
const maxPendingWatermarks = 64

// watchUpstream finds out again and again how far the group before us has come.
func (s *session[T]) watchUpstream() {
	ticker := time.NewTicker(s.consumer.cfg.WatermarkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, max(s.consumer.cfg.WatermarkInterval, 5*time.Second))
		err := s.pollUpstream(ctx)
		cancel()
		if err != nil && s.ctx.Err() == nil {
			s.consumer.log.Warn("reading the upstream group's progress failed; it is retried", "error", err)
		}
	}
}

// pollUpstream asks for the commits first and for the ends of the topic second:
// what was written with the commits lies before those ends. The ends include
// transactions that are open, because one of them may be committed already and
// only its marker not yet written.
func (s *session[T]) pollUpstream(ctx context.Context) error {
	feeds := s.allWorkers()
	if len(feeds) == 0 {
		return nil
	}
	var ids []int32
	for _, f := range feeds {
		ids = append(ids, f.id)
	}
	client := s.consumer.reader.Client
	commits, err := kafka.FetchCommitted(ctx, client, s.consumer.cfg.GroupName(s.consumer.options.watermarkGroup), s.consumer.options.watermarkInput.Name(s.consumer.cfg.Prefix), ids, false)
	if err != nil {
		return err
	}
	ends, err := kafka.ListOffsets(ctx, client, s.topic, ids, kafka.AtEnd)
	if err != nil {
		return err
	}
	for _, f := range feeds {
		end, ok := ends[f.id]
		if !ok {
			continue
		}
		f.end.Store(end)
		commit, ok := commits[f.id]
		if !ok {
			continue
		}
		checkpoint, err := schemas.DecodeCheckpoint(commit.Metadata)
		if err != nil {
			return err
		}
		f.addPending(pendingWatermark{end, checkpoint.LogTime})
	}
	return nil
}

func (w *worker[T]) addPending(m pendingWatermark) {
	w.mu.Lock()
	if len(w.pendingWatermarks) == maxPendingWatermarks {
		// Keep the oldest, which is reached first, and thin out the others.
		kept := w.pendingWatermarks[:1]
		for i := 2; i < maxPendingWatermarks; i += 2 {
			kept = append(kept, w.pendingWatermarks[i])
		}
		w.pendingWatermarks = kept
	}
	w.pendingWatermarks = append(w.pendingWatermarks, m)
	w.mu.Unlock()
	w.notify()
}

// deliverWatermarks tells the handler of the newest mark that was reached.
func (w *worker[T]) deliverWatermarks() {
	next := w.next.Load()
	var reached pendingWatermark
	w.mu.Lock()
	for len(w.pendingWatermarks) > 0 && w.pendingWatermarks[0].offset <= next {
		reached = w.pendingWatermarks[0]
		w.pendingWatermarks = w.pendingWatermarks[1:]
	}
	w.mu.Unlock()
	if int64(reached.logTime) <= w.watermark.Load() {
		return
	}
	handler := w.session.consumer.handler.(WatermarkHandler)
	if err := kafka.CatchPanic(func() error { return handler.Watermark(w.ctx, w.id, reached.logTime) }); err != nil {
		w.session.consumer.log.Warn("the handler refused a watermark; it gets the next one", "partition", w.id, "error", err)
		return
	}
	w.watermark.Store(int64(reached.logTime))
}
