package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/schemas"
)

// CommittedOffset is what a group has committed for one partition.
type CommittedOffset struct {
	// Offset is that of the next record to be handled.
	Offset int64
	// Metadata is a schemas.Checkpoint where the group is the detector's.
	Metadata string
}

// Committed tells what a group, named without the prefix, has committed of a topic, by
// partition. Partitions of which nothing was committed are left out. It does not wait for a
// transaction that is open: that one's offsets are not in it yet.
func Committed(ctx context.Context, cfg Config, group string, topic schemas.Topic) (map[int32]CommittedOffset, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("asking what %s has committed: %w", cfg.GroupName(group), err)
	}
	cfg = cfg.WithDefaults()
	client, err := NewClient(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	name := topic.Name(cfg.Prefix)
	all, err := FetchCommitted(ctx, client, cfg.GroupName(group), name, nil, false)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // it has committed nothing yet
	}
	return all, err
}

// Commits are what group, as Config.GroupName names it, has committed of some partitions of
// topic, or of all when none is named. Partitions of which nothing was committed are left
// out. settled makes it an error, which passes, where a transaction with offsets of these
// partitions is being committed.
func (r *Reader) Commits(ctx context.Context, group string, topic schemas.Topic, settled bool, partitions ...int32) (map[int32]CommittedOffset, error) {
	all, err := FetchCommitted(ctx, r.Client, group, topic.Name(r.prefix), partitions, settled)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	return all, err
}

// LastStableOffset is the offset of a partition before which no transaction is open: what is read
// of it as committed is before it.
func (r *Reader) LastStableOffset(ctx context.Context, topic schemas.Topic, partition int32) (int64, error) {
	ends, err := listOffsetsAs(ctx, r.Client, topic.Name(r.prefix), []int32{partition}, AtEnd, readCommitted)
	return ends[partition], err
}
