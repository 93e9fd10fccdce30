package lastseen

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/schemas"
)

type logged = stream.Logged[*schemas.Transition]

// StartsBefore reports whether the batch starts before an offset. If that is the position that Start returned,
// the log ends before it or is another one: Kafka was restored from a copy older than the store.
func StartsBefore(batch stream.Batch[logged], offset int64) bool {
	return batch.Next < offset || len(batch.Items) > 0 && batch.Items[0].Offset < offset
}

// Above is the part of the items that begins with the first version of a log epoch above logEpoch.
func Above(items []logged, logEpoch int64) []logged {
	from := slices.IndexFunc(items, func(item logged) bool { return int64(item.Message.Version.LogEpoch()) > logEpoch })
	if from < 0 {
		return nil
	}
	return items[from:]
}

// LogEpoch is the greatest log epoch of the items' versions, or that of the items before.
func LogEpoch(items []logged, before int64) int64 {
	for _, item := range items {
		before = max(before, int64(item.Message.Version.LogEpoch()))
	}
	return before
}

// Awaited are the partitions of which a store takes no changes: Kafka was restored from a copy older than the store,
// and the detector has not begun a log epoch above the store's. Any goroutine may call its methods.
type Awaited struct {
	gauge *prometheus.GaugeVec // store, partition

	mu     sync.Mutex
	epochs map[string]map[int32]int64 // by store and partition
}

// Set says that a store, which is sink or projector, takes no changes of a partition before a log epoch above its own.
func (a *Awaited) Set(store string, partition int32, logEpoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epochs[store] == nil {
		a.epochs[store] = map[int32]int64{}
	}
	a.epochs[store][partition] = logEpoch + 1
	a.gauge.WithLabelValues(store, Partition(partition)).Set(float64(logEpoch + 1))
}

// Delete says that it does, or that another process has the partition.
func (a *Awaited) Delete(store string, partition int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.epochs[store], partition)
	a.gauge.DeleteLabelValues(store, Partition(partition))
}

// alarmEvery is the time between two lines about what a store awaits.
const alarmEvery = 30 * time.Second

// Run logs what is awaited, again and again, until ctx ends.
func (a *Awaited) Run(ctx context.Context, log *slog.Logger) error {
	for range tick.Later(ctx, alarmEvery) {
		for _, store := range []string{Sink, Projector} {
			if epoch, partitions := a.Of(store); epoch != 0 {
				log.Error("ALARM: Kafka was restored from a copy older than a store, which takes no changes until the detectors begin a log epoch: "+
					"stop all roles, delete the detectors' group, and start them with this --min-log-epoch (docs/how-to/backup.md)",
					"store", store, "min_log_epoch", epoch, "partitions", partitions)
			}
		}
	}
	return nil
}

// Of is the greatest log epoch that a store awaits, and how many of its partitions do; 0: none.
func (a *Awaited) Of(store string) (epoch int64, partitions int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, awaited := range a.epochs[store] {
		epoch = max(epoch, awaited)
	}
	return epoch, len(a.epochs[store])
}

// The stores that Awaited names.
const (
	Sink      = "sink"
	Projector = "projector"
)
