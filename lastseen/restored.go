package lastseen

import (
	"slices"

	"github.com/stillhere/stillhere/internal/stream"
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
