package processor

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// partition is an assigned partition. Its goroutine (run) owns the task and the fields that say so.
type partition struct {
	member.Progress
	s      *session
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc

	begin   chan startPoint   // one, from onAdjustOffsets or restartFailed
	work    chan workItem     // from the loop, only when it has the last result
	results chan handleResult // to the loop

	startedAt startPoint       // the goroutine's until it restores, the loop's after that
	task      Task             // the goroutine's
	record    schemas.Record   // the goroutine's, reused
	headers   []schemas.Header // the goroutine's, reused
	outbox    stream.Outbox    // the goroutine's while it handles, the loop's otherwise

	handled    handled // the loop's: what the partition has handled, as far as the loop has taken its output
	dirty      bool    // the loop's: handled is not committed
	handledAny bool    // the loop's
	fetching   bool    // the loop's: restored and resumed; records that came earlier are not for its task

	progress atomic.Int64 // Unix nanoseconds of the last progress, for the watchdog
	handling atomic.Int64 // offset of the record that the task handles, -1 for none
	watched  int64        // the watchdog's: what it handled when looked at last

	callsServers atomic.Bool // the task is a BatchTask
	ticking      atomic.Bool // a tick is being appended
	ticks        roundTrip
}

// startPoint is where a partition starts.
type startPoint struct {
	commit   stream.Assignment
	first    int64
	failures int // of the task, in a row
}

// workItem is the order to continue the record that has more output, if there is one, then to
// handle records, until the budget is exhausted or it has taken long enough.
type workItem struct {
	records []*kgo.Record
	budget  budget
	stop    bool // call StoppingTask.Stop instead
}

// handled describes a prefix of a partition: what a commit of it contains besides output.
type handled struct {
	next       int64 // the offset after it
	checkpoint string
	due        time.Time // see RetainingTask
	retained   int64     // see RetainingTask; valid if retains
	retains    bool
}

// committable is the offset that may be committed once the output is written.
func (h handled) committable() int64 {
	if h.retains {
		return min(h.next, h.retained)
	}
	return h.next
}

// handleResult is the result of a workItem. out belongs to the loop until it sends the next item.
type handleResult struct {
	handled
	out     *stream.Outbox
	records int
	parts   int           // records that had output
	rest    []*kgo.Record // records that the budget had no room for
	more    bool          // of StoppingTask.Stop
	err     error
}

func newPartition(s *session, id int32) *partition {
	p := &partition{Progress: member.Progress{ID: id}, s: s, log: s.Log.With("partition", id),
		begin: make(chan startPoint, 1), work: make(chan workItem, 1), results: make(chan handleResult, 1)}
	p.ctx, p.cancel = context.WithCancel(s.Ctx)
	p.Phase.Store(kafka.Restoring)
	p.handling.Store(-1)
	p.noteProgress()
	return p
}

func (p *partition) String() string { return fmt.Sprintf("%s/%d", p.s.Name, p.ID) }

// noteProgress reports progress to the watchdog.
func (p *partition) noteProgress() { p.progress.Store(time.Now().UnixNano()) }

func (p *partition) run() {
	defer p.cancel()
	defer p.release()
	select {
	case p.startedAt = <-p.begin:
	case <-p.ctx.Done():
		return
	}
	if !p.restoreWithRetries() {
		return
	}
	for {
		select {
		case item := <-p.work:
			if item.stop {
				p.results <- p.stop()
			} else {
				p.results <- p.handle(item)
			}
		case <-p.ctx.Done():
			return
		}
	}
}

// release closes the task.
func (p *partition) release() {
	task, ok := p.task.(ClosedTask)
	p.task = nil
	if !ok {
		return
	}
	if err := kafka.CatchPanic(func() error { task.Close(); return nil }); err != nil {
		p.log.Error("closing a task failed", "error", err)
	}
}

// handledUpTo sets the log time of the record handled last. It is the watermark too.
func (p *partition) handledUpTo(at int64) {
	p.LogTime.Store(at)
	p.Watermark.Store(at)
}
