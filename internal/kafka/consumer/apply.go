package consumer

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tracing"
	"github.com/stillhere/stillhere/schemas"
)

// apply decodes the records and lets the handler apply them, until that works. It is false when the
// worker ends first.
func (w *worker[T]) apply(records []*kgo.Record) bool {
	var todo []*kgo.Record
	last := records[len(records)-1]
	for _, r := range records {
		if !r.Attrs.IsControl() && r.Offset >= w.Next.Load() {
			todo = append(todo, r)
			w.latest = max(w.latest, schemas.MillisOf(r.Timestamp))
		}
	}
	run := stream.Batch[T]{Partition: w.ID, Next: last.Offset + 1, Latest: w.latest}
	for tries := 1; ; tries++ {
		rest, err := w.attempt(todo, run)
		if err == nil {
			break
		}
		todo = rest
		w.Metrics.BatchRetried()
		if wantsReset(err) {
			w.log.Error("ALARM: the handler lost records that it had applied", "offset", w.Next.Load(), "error", err)
			w.resetPosition()
			return false
		}
		w.log.Warn("applying a batch failed; retrying",
			"offset", w.Next.Load(), "records", len(todo), "tries", tries, "error", err)
		if !w.pause(kafka.Backoff(tries)) {
			return false
		}
	}
	w.Next.Store(last.Offset + 1)
	w.LogTime.Store(last.Timestamp.UnixMilli())
	w.Metrics.RecordsHandled(len(todo))
	w.applied.Store(true)
	w.read, w.epoch = true, last.LeaderEpoch
	return true
}

// attempt tries once to apply the run's records. rest are the records without those that it has sent to the dead-letter
// topic.
func (w *worker[T]) attempt(records []*kgo.Record, run stream.Batch[T]) (rest []*kgo.Record, err error) {
	clear(w.items)
	w.items = w.items[:0]
	var record schemas.Record
	for i, r := range records {
		kafka.FromKafka(&record, r, nil)
		var item T
		err := kafka.CatchPanic(func() (err error) { item, err = w.consumer.decode(&record); return err })
		switch {
		case err == nil:
			w.items = append(w.items, item)
			rest = append(rest, r)
		case schemas.IsInvalid(err):
			if err := w.sendToDeadLetter(&record, err); err != nil {
				return append(rest, records[i:]...), err
			}
		default:
			return append(rest, records[i:]...), fmt.Errorf("decoding offset %d: %w", r.Offset, err)
		}
	}
	if len(w.items) == 0 {
		return rest, nil
	}
	ctx, end := tracing.Span(w.ctx,
		tracing.Batch{What: "apply", Topic: w.Name, Group: w.Group, Partition: w.ID, Records: len(w.items)})
	defer func() { end(err) }()
	return rest, kafka.CatchPanic(func() error {
		run.Items = w.items
		return w.consumer.handler.Apply(ctx, run)
	})
}

// sendToDeadLetter appends a record to the dead-letter topic and waits for the acknowledgement.
func (w *worker[T]) sendToDeadLetter(record *schemas.Record, reason error) error {
	if w.Producer == nil {
		return errors.Join(errors.New("there is no producer for dead letters"), reason)
	}
	if err := w.Producer.AppendSync(w.ctx, w.DeadLetter(w.Name, record, reason)); err != nil {
		return err
	}
	w.CountDeadLetter(w.ID, record.Offset, reason)
	return nil
}
