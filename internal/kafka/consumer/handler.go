package consumer

import (
	"context"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Handler takes the records of the partitions that a Consumer reads. Calls for one partition come
// one at a time and in order, calls for different partitions at the same time.
type Handler[T any] interface {
	// Apply makes the batch take effect; when it returns nil, the batch's offsets may be committed.
	// A batch is never empty. After an error the same batch is applied again, after a pause, until
	// it works or ctx ends. ctx outlasts the shutdown by up to Config.StopTimeout, to finish. After a
	// crash a batch may come again, cut in another way. A PositionedHandler may return an error with
	// a method ResetPosition() bool that returns true: the partition is then read again from the
	// position that Start returns.
	Apply(ctx context.Context, batch stream.Batch[T]) error
}

// PositionedHandler is a Handler that stores the offsets itself.
type PositionedHandler interface {
	// Start is the first call for a partition that was assigned. at is the partition as it is, with
	// what the group has committed. Start returns the next offset to read; -1 stands for the group's
	// commit or the start of the log. If its topic is known to be another than at's, the topic was
	// recreated: it is read from its start whatever the offset. After an error Start is called
	// again; the partitions that were assigned with this one wait.
	Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error)
}

// StoppedHandler is a Handler that keeps something of each partition, such as a gauge.
type StoppedHandler interface {
	// Stop is called when another process takes the partition over, or the consumer ends. A last
	// Apply that does not end in time may still run. Start comes before the partition's next Apply.
	Stop(partition int32)
}

// AsyncHandler is a Handler whose Apply may return before the batch has taken effect, so that a
// part of it that waits does not delay later batches. Only what lies before the first part in hand
// is committed: after a crash that part and everything behind it come again.
type AsyncHandler interface {
	// InHand is the offset of the first applied record of the partition that has not taken effect;
	// false if there is none. It is called from the partition's goroutine.
	InHand(partition int32) (first int64, any bool)
	// Finish is called after the last Apply, when the partition goes. It returns when nothing works
	// on the partition any more, soon after ctx ends at the latest, with the result of InHand. The
	// partition is forgotten after it.
	Finish(ctx context.Context, partition int32) (first int64, any bool)
}

// WatermarkHandler is a Handler that needs to know its progress even when no records come.
type WatermarkHandler interface {
	// Watermark is called when everything that the upstream group committed up to this log time has
	// been applied. It comes from the partition's goroutine, in order with Apply. An error is
	// logged; another watermark follows.
	Watermark(ctx context.Context, partition int32, logTime schemas.Millis) error
}
