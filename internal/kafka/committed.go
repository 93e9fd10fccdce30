package kafka

import (
	"context"
	"errors"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/schemas"
)

// CommittedOffset is what a group has committed for one partition.
type CommittedOffset struct {
	// Offset is that of the next record to process.
	Offset int64
	// Metadata is a schemas.Checkpoint if the group is the detector's.
	Metadata string
}

// Committed returns what a group, named without the prefix, has committed of a topic, by
// partition; partitions without a committed offset are missing. It does not wait for an open
// transaction, whose offsets are not in the answer.
func Committed(ctx context.Context, cfg Config, group string, topic schemas.Topic) (map[int32]CommittedOffset, error) {
	reader, err := NewReader(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return reader.Commits(ctx, cfg.GroupName(group), topic, false)
}

// Ends returns the offsets behind the last record of a topic, by partition, also of open transactions.
func Ends(ctx context.Context, cfg Config, topic schemas.Topic) (map[int32]int64, error) {
	reader, err := NewReader(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	n, err := reader.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return ListOffsets(ctx, reader.Client, topic.Name(reader.prefix), all, AtEnd)
}

// Commits returns what group, as Config.GroupName names it, has committed of some partitions of
// topic, or of all if none is named. Partitions without a committed offset are missing. With settled
// it returns a temporary error while a transaction with offsets of these partitions is committed.
func (r *Reader) Commits(ctx context.Context, group string, topic schemas.Topic, settled bool, partitions ...int32) (
	map[int32]CommittedOffset, error) {
	all, err := FetchCommitted(ctx, r.Client, group, topic.Name(r.prefix), partitions, settled)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // it has committed nothing yet
	}
	return all, err
}

// LastStableOffset is the offset before which no transaction of the partition is open; readers of
// committed records get the records before it.
func (r *Reader) LastStableOffset(ctx context.Context, topic schemas.Topic, partition int32) (int64, error) {
	ends, err := listOffsetsAs(ctx, r.Client, topic.Name(r.prefix), []int32{partition}, AtEnd, readCommitted)
	return ends[partition], err
}
