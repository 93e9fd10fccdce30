package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// errFirst ends a reading after its first record.
var errFirst = errors.New("the first record was read")

// BeginsAfter returns when the first record of a topic was published, if since is before that; else 0. An empty topic
// begins nowhere.
func BeginsAfter(ctx context.Context, reader *kafka.Reader, topic schemas.Topic, since schemas.Millis) (schemas.Millis, error) {
	count, err := reader.Partitions(ctx, topic)
	if err != nil {
		return 0, err
	}
	var begun []int32 // partitions with records
	for p := range count {
		start, end, err := reader.Bounds(ctx, topic, p)
		if err != nil {
			return 0, err
		}
		if start == end {
			continue
		}
		first, err := reader.OffsetSince(ctx, topic, p, since)
		if err != nil || first > start {
			return 0, err // this partition has older records
		}
		begun = append(begun, p)
	}
	begins := schemas.Millis(0)
	for _, p := range begun {
		err := reader.Read(ctx, topic, p, -1, -1, true, func(r *schemas.Record) error {
			if begins == 0 || r.Time < begins {
				begins = r.Time
			}
			return errFirst
		})
		if err != nil && !errors.Is(err, errFirst) {
			return 0, fmt.Errorf("reading the first record of partition %d: %w", p, err)
		}
	}
	if begins <= since {
		return 0, nil
	}
	return begins, nil
}
