package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/schemas"
)

// Commits are what group, as Config.GroupName names it, has committed of some partitions of
// topic, or of all when none is named. Partitions of which nothing was committed are left
// out. settled makes it an error, which passes, where a transaction with offsets of these
// partitions is being committed.
func (r *Reader) Commits(ctx context.Context, group string, topic schemas.Topic, settled bool, partitions ...int32) (map[int32]CommittedOffset, error) {
	all, err := committedAll(ctx, r.client, group, topic.Name(r.prefix), partitions, settled)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	return all, err
}

// SettledEnd is the offset of a partition before which no transaction is open: what is read
// of it as committed is before it.
func (r *Reader) SettledEnd(ctx context.Context, topic schemas.Topic, partition int32) (int64, error) {
	ends, err := listOffsetsAs(ctx, r.client, topic.Name(r.prefix), []int32{partition}, atEnd, readCommitted)
	return ends[partition], err
}
