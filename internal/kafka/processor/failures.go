package processor

import (
	"sync"

	"github.com/stillhere/stillhere/internal/kafka/member"
)

// failures counts, over all sessions, how often each partition's task failed and how often it
// stalled in a row at one record. After Config.MaxFailures of them the partition is parked. Any
// goroutine may use it.
type failures struct {
	loop   *member.Loop
	mu     sync.Mutex
	tasks  map[int32]failure
	stalls map[int32]failure
}

// failure is where a task failed and how often in a row.
type failure struct {
	offset int64
	count  int
	parked bool
}

// task counts a failure of a partition's task at an offset, -1 during its restore. It returns how
// many there were in a row.
func (f *failures) task(partition int32, offset int64) int {
	f.loop.Metrics.TaskFailed()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.tasks[partition].next(offset)
	if last.count >= f.loop.Config.MaxFailures && !last.parked {
		last.parked = true
		f.loop.Metrics.PartitionParked(partition)
		f.loop.Log.Error("ALARM: the partition is parked until this process is restarted: "+
			"its task fails at the same record again and again", "partition", partition, "offset", offset, "times", last.count)
	}
	f.tasks[partition] = last
	return last.count
}

// stall counts a stall at a record. It is a failure of the task too, unless the task calls servers
// besides Kafka: it may have to wait for them.
func (f *failures) stall(partition int32, offset int64, callsServers bool) {
	f.mu.Lock()
	f.stalls[partition] = f.stalls[partition].next(offset)
	f.mu.Unlock()
	if !callsServers {
		f.task(partition, offset)
	}
}

// next is the failure that follows f.
func (f failure) next(offset int64) failure {
	if f.offset != offset {
		f = failure{offset: offset}
	}
	f.count++
	return f
}

// stallsAt is how often in a row a partition stalled at an offset.
func (f *failures) stallsAt(partition int32, offset int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.stalls[partition]; last.offset == offset {
		return last.count
	}
	return 0
}

// of returns how often in a row a partition's task failed, and whether it is parked.
func (f *failures) of(partition int32) (count int, parked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tasks[partition].count, f.tasks[partition].parked
}
