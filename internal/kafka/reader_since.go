package kafka

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// OffsetSince is the first offset of the partition whose record has a time of at
// least since, as far as the brokers' time index can tell: it may be somewhat
// earlier, never later. Without such a record it is the end of the partition.
func (r *Reader) OffsetSince(ctx context.Context, topic schemas.Topic, partition int32, since schemas.Millis) (int64, error) {
	name := topic.Name(r.prefix)
	// Negative times stand for places.
	offset, err := listOffset(ctx, r.client, name, partition, max(0, int64(since)))
	if err == nil && offset < 0 {
		offset, err = listOffset(ctx, r.client, name, partition, atEnd)
	}
	return offset, err
}
