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

// happened is the instant that a record is of: of a change when it came about, which is a little before it was
// published. Instants of people are compared with the former.
func happened(topic schemas.Topic, r *schemas.Record) schemas.Millis {
	if topic == schemas.Transitions {
		if t, err := schemas.DecodeTransition(r.Value); err == nil && t.At != 0 {
			return min(t.At, r.Time)
		}
	}
	return r.Time
}

// BeginsAfter returns the instant of the first record of a topic, if since is before that; else 0. An empty topic
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
			at := happened(topic, r)
			if begins == 0 || at < begins {
				begins = at
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
