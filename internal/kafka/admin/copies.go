package admin

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// checkPause is how late Kafka may notice that a segment has expired and remove its files.
const checkPause = 10 * time.Minute

// Copies are for how long each topic, by its name, may still have a record that is written now, and on which
// condition; empty: none.
type Copies struct {
	Stay map[string]time.Duration
	Note string
}

// embedded is the id of the cluster within dev, and compactsAtStart what is different about it.
const (
	embedded        = "stillhere-standin"
	compactsAtStart = "stillhere dev compacts its topics only when it starts: copies in these go at its first start on or after their days"
)

// LastCopies returns how long copies stay. A record of a topic
// with a retention stays for the retention and until the segment that it is in is closed. A topic
// that is compacted keeps a superseded record until the next compaction, and then its tombstone for
// delete.retention.ms and until the compaction after that. The error names the topic that keeps
// records without limit.
func LastCopies(ctx context.Context, cfg kafka.Config) (Copies, error) {
	admin, _, found, err := openTopics(ctx, cfg)
	if err != nil {
		return Copies{}, err
	}
	defer admin.Close()
	copies := Copies{Stay: map[string]time.Duration{}}
	if cluster, err := admin.BrokerMetadata(ctx); err != nil {
		return Copies{}, fmt.Errorf("asking for the cluster: %w", err)
	} else if cluster.Cluster == embedded {
		copies.Note = compactsAtStart
	}
	for _, t := range found {
		if !t.exists {
			continue // it was deleted with its copies
		}
		switch t.spec.Topic {
		case schemas.Graph, schemas.Pipeline, schemas.Policies:
			continue // nothing of Stillhere writes the graph; the identity and policies have nothing of users
		}
		if copies.Stay[t.name], err = t.longest(); err != nil {
			return Copies{}, err
		}
		if t.spec.Topic == schemas.Snapshots {
			copies.Stay[t.name] += schemas.LatestSnapshot // its state is older than it
		}
	}
	return copies, nil
}

// tooLong is a retention of which no receipt can name the end.
const tooLong = 100 * 365 * 24 * time.Hour

// longest is how long the topic may keep a record that is written now.
func (t *clusterTopic) longest() (time.Duration, error) {
	names := []string{"retention.ms", "segment.ms"}
	if t.spec.Config["cleanup.policy"] == "compact" {
		names = []string{"max.compaction.lag.ms", "max.compaction.lag.ms", "delete.retention.ms"}
	}
	sum := checkPause
	for _, name := range names {
		ms, err := strconv.ParseInt(t.settings[name], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("topic %s has %s=%q, which is no number", t.name, name, t.settings[name])
		}
		if ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) || time.Duration(ms)*time.Millisecond > tooLong {
			return 0, fmt.Errorf("topic %s has %s=%d, so nobody knows when its last copy of a record is gone; "+
				"set a limit with: stillhere topics apply --%s-retention", t.name, name, ms, t.spec.Topic)
		}
		sum += time.Duration(ms) * time.Millisecond
	}
	return sum, nil
}
