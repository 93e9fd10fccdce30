package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// retentionSettings are the settings of topics that schemas.Retention determines.
var retentionSettings = []string{"retention.ms", "segment.ms", "max.compaction.lag.ms", "delete.retention.ms"}

// changeRetention gives t the retention that asked sets, and returns what it changed.
func changeRetention(ctx context.Context, admin *kadm.Client, t clusterTopic, asked schemas.Retention) ([]string, error) {
	if !asked.Given(t.spec.Topic) {
		return nil, nil
	}
	var changes []kadm.AlterConfig
	var changed []string
	for _, name := range retentionSettings {
		if value, ok := t.spec.Config[name]; ok && t.settings[name] != value {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
			changed = append(changed, fmt.Sprintf("%s=%s (was: %s)", name, value, t.settings[name]))
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	responses, err := admin.AlterTopicConfigs(ctx, changes, t.name)
	for _, r := range responses {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		err = kafka.WithGrantHint(err, "AlterConfigs", kafka.OfTopic, t.name)
		return nil, fmt.Errorf("changing the retention of topic %s: %w", t.name, err)
	}
	slices.Sort(changed)
	return changed, nil
}

// CheckRetention is an error if a topic may lose what a restart of the detector reads.
func CheckRetention(ctx context.Context, cfg kafka.Config) error {
	admin, _, found, err := openTopics(ctx, cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	var faults []error
	least := schemas.MinHeartbeats
	for _, t := range found { // heartbeats are the first
		if t.spec.Topic != schemas.Heartbeats && t.spec.Topic != schemas.Snapshots {
			continue
		}
		kept, err := strconv.ParseInt(t.settings["retention.ms"], 10, 64)
		if err != nil || kept < 0 { // without limit
			continue
		}
		is := time.Duration(min(kept, 1<<43)) * time.Millisecond
		if is < least {
			faults = append(faults, fmt.Errorf("topic %s has retention.ms=%d (%s), and a restart of the detector may read what is %s old; "+
				"change it with: stillhere topics apply --retention heartbeats=%s", t.name, kept, is, least, least))
		}
		least = max(least, is)
	}
	return errors.Join(faults...)
}
