package consumer

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// batchesWaiting is how many batches of MaxPollRecords wait before a partition is paused. Records
// after a pause may be late by kafka's fetchMaxWait, so an ordinary burst causes none.
const batchesWaiting = 4

// enqueue queues records. When enough wait, the partition is not fetched until they are taken.
func (w *worker[T]) enqueue(records []*kgo.Record, end int64) {
	w.Fetched(end)
	w.mu.Lock()
	w.queue = append(w.queue, records...)
	if !w.paused && len(w.queue) >= batchesWaiting*w.Config.MaxPollRecords {
		// Under the lock, or dequeue might resume first.
		w.paused = true
		w.Client.PauseFetchPartitions(w.Only(w.ID))
	}
	w.mu.Unlock()
	w.notify()
}

func (w *worker[T]) notify() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// dequeue returns queued records, at most MaxPollRecords. If that was all, the partition is fetched
// again; not before, because the client throws away what it has fetched of a paused partition.
func (w *worker[T]) dequeue() []*kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	records := w.queue
	if most := w.Config.MaxPollRecords; len(records) > most {
		records, w.queue = records[:most:most], records[most:]
		w.notify()
		return records
	}
	w.queue = nil
	if w.paused {
		w.paused = false
		w.Client.ResumeFetchPartitions(w.Only(w.ID))
	}
	return records
}

// batchFull reports whether as much is queued as goes into one batch, or as there will be: a paused
// partition is fetched again only when nothing is left.
func (w *worker[T]) batchFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused || len(w.queue) >= w.Config.MaxPollRecords
}
