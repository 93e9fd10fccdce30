package consumer

// Backlog and ReplaceWorker let tests look at and disturb a partition of a running Consumer.

// Backlog returns how many records of the partition wait in memory, and whether its fetching
// is paused.
func (c *Consumer[T]) Backlog(partition int32) (records int, paused bool) {
	w := c.current.Load().worker(partition)
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue), w.paused
}

// ReplaceWorker stops the worker of a partition, as when the partition is lost, and starts
// another one at offset, as when it comes back.
func (c *Consumer[T]) ReplaceWorker(partition int32, offset int64) {
	s := c.current.Load()
	s.stopWorkers([]int32{partition}, 0)
	s.start(partition).beginAt(position{first: offset, end: offset})
}
