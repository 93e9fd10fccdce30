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
	cfg = cfg.withDefaults()
	client, err := newClient(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	name := topic.Name(cfg.Prefix)
	all, err := committedAll(ctx, client, cfg.GroupName(group), name, nil, false)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // it has committed nothing yet
	}
	return all, err
}

// Refused tells whether err says that Kafka does not allow what was asked for.
func Refused(err error) bool { return err != nil && refused(err) }
