package policy

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/origin"
	"github.com/stillhere/stillhere/schemas"
)

// Checkpoints reads the checkpoints that the detector's group has committed, by partition. A
// partition without a commit has none.
func Checkpoints(ctx context.Context, cluster kafka.Config) (map[int32]*schemas.Checkpoint, error) {
	commits, err := kafka.Committed(ctx, cluster, origin.DetectorGroup, schemas.Heartbeats)
	if err != nil {
		return nil, err
	}
	all := map[int32]*schemas.Checkpoint{}
	for id, c := range commits {
		if c.Metadata == "" {
			continue
		}
		if all[id], err = schemas.DecodeCheckpoint(c.Metadata); err != nil {
			return nil, fmt.Errorf("%s, partition %d: %w", origin.DetectorGroup, id, err)
		}
	}
	return all, nil
}
