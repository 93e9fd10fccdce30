package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/schemas"
)

// Checkpoints reads what the group has committed beside its offsets in the topic. Partitions
// without a commit, or whose commit has no checkpoint, are left out. It asks Kafka once, and
// needs to describe topic and group.
func Checkpoints(ctx context.Context, cfg Config, group string, topic schemas.Topic) (map[int32]*schemas.Checkpoint, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("reading what %s has committed: %w", group, err)
	}
	cfg = cfg.withDefaults()
	client, err := newClient(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	name := topic.Name(cfg.Prefix)
	meta, err := describe(ctx, client, name, "Describe")
	if err != nil {
		return nil, err
	}
	partitions := make([]int32, len(meta.leaders))
	for i := range partitions {
		partitions[i] = int32(i)
	}
	commits, err := committedAll(ctx, client, cfg.GroupName(group), name, partitions)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // nobody has committed anything yet
	}
	if err != nil {
		return nil, err
	}
	all := map[int32]*schemas.Checkpoint{}
	for id, commit := range commits {
		if commit.metadata == "" {
			continue
		}
		if all[id], err = schemas.DecodeCheckpoint(commit.metadata); err != nil {
			return nil, fmt.Errorf("%s, partition %d: %w", cfg.GroupName(group), id, err)
		}
	}
	return all, nil
}
