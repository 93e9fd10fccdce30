package admin

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/kafka"
)

// CheckPartitions is an error if a topic by user exists with another number of partitions than asked.
// Existing topics keep the number that they have: the partition of a user follows from it.
func CheckPartitions(ctx context.Context, cfg kafka.Config, asked int32) error {
	admin, _, found, err := openTopics(ctx, cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, t := range found {
		if t.spec.ByUser && t.exists && t.partitions != asked {
			return fmt.Errorf("partitions: topic %s has %d partitions, and --partitions asks for %d; nothing was changed. "+
				"The number of partitions decides which one a user's records are in: with another number, new records of most users would "+
				"go to a partition whose detector does not know them, and their older records would stay behind. "+
				"To keep the pipeline, leave --partitions out, or give %d. "+
				"To have %d, create a second pipeline and move to it: see \"More partitions\" in docs/how-to/operate.md",
				t.name, t.partitions, asked, t.partitions, asked)
		}
	}
	return nil
}
