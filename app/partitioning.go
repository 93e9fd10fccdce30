package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// sample is the number of newest statuses of each partition that verifyPartitioning reads.
const sample = 50

// verifyPartitioning refuses to start if statuses were written with another number of
// partitions, as after partitions were added to all topics: the topics agree with each other,
// and half of the users would be looked for in the wrong partition. If the detector has
// committed in every partition, none was added; then another program wrote a status to the
// wrong partition, which must not stop the detector.
func verifyPartitioning(ctx context.Context, p base) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	reader, err := kafka.NewReader(p.cluster, p.log)
	if err != nil {
		return err
	}
	defer reader.Close()
	for partition := range p.partitions {
		start, end, err := reader.Bounds(ctx, schemas.Statuses, partition)
		if err != nil {
			return fmt.Errorf("checking that users are in their partitions: %w", err)
		}
		// Aborted records show the partition too, and reading them does not wait for a transaction.
		err = reader.Read(ctx, schemas.Statuses, partition, max(start, end-sample), end, false, func(r *schemas.Record) error {
			user, err := schemas.UserOfKey(r.Key)
			if err != nil {
				return nil // the detector reports it
			}
			own := schemas.PartitionOf(user, p.partitions)
			if own == partition {
				return nil
			}
			everywhere, err := committedInEveryPartition(ctx, p, reader)
			if err != nil {
				return fmt.Errorf("checking whether partitions were added: %w", err)
			}
			if everywhere {
				p.log.Error("ALARM: a status is in a partition of other users; the detector does not write such: somebody else has",
					"user", user, "partition", partition, "offset", r.Offset, "belongs_in", own)
				return errForeign
			}
			return fmt.Errorf("user %d is in partition %d of %d of %s and belongs in %d: partitions were added after users had been written, and Kafka cannot remove them; "+
				"use topics with another prefix (stillhere topics apply --topic-prefix), or delete and create these topics", user, partition, p.partitions,
				schemas.Statuses.Name(p.cluster.Prefix), own)
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

var errForeign = errors.New("another program wrote a status")

// committedInEveryPartition reports whether the detector has committed in every partition.
func committedInEveryPartition(ctx context.Context, p base, reader *kafka.Reader) (bool, error) {
	commits, err := reader.Commits(ctx, p.cluster.GroupName(detectorGroup), schemas.Heartbeats, false)
	if err != nil {
		return false, err
	}
	for partition := range p.partitions {
		if commits[partition].Metadata == "" {
			return false, nil
		}
	}
	return true, nil
}
