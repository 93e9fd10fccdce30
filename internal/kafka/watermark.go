package kafka

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// mark says: whoever has applied everything before offset has applied all that
// the group before it committed up to logTime.
type mark struct {
	offset  int64
	logTime schemas.Millis
}

// maxMarks bounds what a follower remembers that lags far behind.
const maxMarks = 64

// watermarks finds out again and again how far the group before us has come.
func (s *following[T]) watermarks() {
	ticker := time.NewTicker(s.f.cfg.WatermarkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, max(s.f.cfg.WatermarkInterval, 5*time.Second))
		err := s.lookAhead(ctx)
		cancel()
		if err != nil && s.ctx.Err() == nil {
			s.f.log.Warn("looking how far the group before has come", "error", err)
		}
	}
}

// lookAhead asks for the commits first and for the ends of the topic second:
// what was written with the commits lies before those ends. The ends include
// transactions that are open, because one of them may be committed already and
// only its marker not yet written.
func (s *following[T]) lookAhead(ctx context.Context) error {
	feeds := s.all()
	if len(feeds) == 0 {
		return nil
	}
	var ids []int32
	for _, f := range feeds {
		ids = append(ids, f.id)
	}
	client := s.f.reader.client
	commits, err := committedAll(ctx, client, s.f.cfg.GroupName(s.f.options.watermarkGroup), s.f.options.watermarkInput.Name(s.f.cfg.Prefix), ids, false)
	if err != nil {
		return err
	}
	ends, err := listOffsets(ctx, client, s.name, ids, atEnd)
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
		f.addMark(mark{end, checkpoint.LogTime})
	}
	return nil
}

func (f *feed[T]) addMark(m mark) {
	f.mu.Lock()
	if len(f.marks) == maxMarks {
		// Keep the oldest, which is reached first, and thin out the others.
		kept := f.marks[:1]
		for i := 2; i < maxMarks; i += 2 {
			kept = append(kept, f.marks[i])
		}
		f.marks = kept
	}
	f.marks = append(f.marks, m)
	f.mu.Unlock()
	f.notify()
}

// reachMarks tells the handler of the newest mark that was reached.
func (f *feed[T]) reachMarks() {
	next := f.next.Load()
	var reached mark
	f.mu.Lock()
	for len(f.marks) > 0 && f.marks[0].offset <= next {
		reached = f.marks[0]
		f.marks = f.marks[1:]
	}
	f.mu.Unlock()
	if int64(reached.logTime) <= f.marked.Load() {
		return
	}
	handler := f.s.f.handler.(Watermarker)
	if err := guarded(func() error { return handler.Watermark(f.ctx, f.id, reached.logTime) }); err != nil {
		f.s.f.log.Warn("passing on a watermark", "partition", f.id, "error", err)
		return
	}
	f.marked.Store(int64(reached.logTime))
}
