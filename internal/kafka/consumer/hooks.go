package consumer

import "github.com/stillhere/stillhere/internal/stream"

// Backlog and ReplaceWorker let tests of the loop observe and disturb a partition of a Consumer
// that runs.

// Backlog returns how many records of the partition wait in memory, and whether its fetching
// is paused.
func (c *Consumer[T]) Backlog(partition int32) (records int, paused bool) {
	w := c.current.Load().Part(partition)
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue), w.paused
}

// ReplaceWorker stops the worker of a partition, as when the partition is lost, and starts
// another one at offset, as when it comes back.
func (c *Consumer[T]) ReplaceWorker(partition int32, offset int64) {
	s := c.current.Load()
	s.stopWorkers([]int32{partition}, 0)
	s.start(partition).beginAt(stream.Assignment{Offset: offset, LogEnd: offset})
}
