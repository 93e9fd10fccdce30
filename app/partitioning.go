package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// sample is how many of the newest statuses of a partition are looked at.
const sample = 50

// verifyPartitioning refuses to start where users have been written with another
// number of partitions, as when all topics were given more: the topics agree, and
// half of the users would be looked for where they are not. Where the detector has
// committed in all of the partitions, none has been added: then somebody else has written
// a status where none of its user's belongs, which must not keep everybody out.
func (b *builder) verifyPartitioning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	reader, err := kafka.NewReader(b.config.Kafka, b.log)
	if err != nil {
		return err
	}
	defer reader.Close()
	for p := range b.partitions {
		start, end, err := reader.Bounds(ctx, schemas.Statuses, p)
		if err != nil {
			return fmt.Errorf("looking whether users are in their partitions: %w", err)
		}
		// Aborted records show the partition too, and reading them does not wait for a transaction.
		err = reader.Read(ctx, schemas.Statuses, p, max(start, end-sample), end, false, func(r *schemas.Record) error {
			user, err := schemas.UserOfKey(r.Key)
			if err != nil {
				return nil // the detector says what it thinks of that
			}
			if owner := schemas.PartitionOf(user, b.partitions); owner != p {
				known, err := b.committedInEveryPartition(ctx, reader)
				if err != nil {
					return fmt.Errorf("looking whether partitions were added: %w", err)
				}
				if known {
					b.log.Error("ALARM: a status is in a partition of other users; the detector does not write such: somebody else has",
						"user", user, "partition", p, "offset", r.Offset, "belongs_in", owner)
					return errForeign
				}
				return fmt.Errorf("user %d is in partition %d of %d of %s and belongs in %d: partitions were added after users had been written, and cannot be taken away again; "+
					"start with topics of another prefix (stillhere topics apply --topic-prefix), or of the same name made anew", user, p, b.partitions,
					schemas.Statuses.Name(b.config.Kafka.Prefix), owner)
			}
			return nil
		})
		if errors.Is(err, errForeign) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errForeign = errors.New("somebody else has written")

// committedInEveryPartition tells whether the detector has committed in every partition.
func (b *builder) committedInEveryPartition(ctx context.Context, reader *kafka.Reader) (bool, error) {
	commits, err := reader.Commits(ctx, b.config.Kafka.GroupName(detectorGroup), schemas.Heartbeats, false)
	if err != nil {
		return false, err
	}
	for p := range b.partitions {
		if commits[p].Metadata == "" {
			return false, nil
		}
	}
	return true, nil
}
