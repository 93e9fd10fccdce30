package schemas

import (
	"strconv"
	"time"
)

// Topic is a topic's name without the configurable prefix.
type Topic string

// The topics. What each carries is in README.md beside this file.
const (
	Heartbeats  Topic = "heartbeats"
	Transitions Topic = "transitions"
	Statuses    Topic = "status"
	Fanout      Topic = "fanout"
	Deliveries  Topic = "deliveries"
	DeadLetter  Topic = "deadletter"
)

// DefaultPrefix makes presence.heartbeats of heartbeats.
const DefaultPrefix = "presence."

// Name is the topic's name in the cluster.
func (t Topic) Name(prefix string) string { return prefix + string(t) }

// TopicSpec is the required configuration of a topic.
type TopicSpec struct {
	Topic Topic
	// ByUser topics have the same number of partitions, and a user has the same partition in all
	// of them.
	ByUser bool
	// Config are the topic's settings as Kafka names them.
	Config map[string]string
	// Must are the names of the settings that the pipeline depends on: it refuses to start with
	// other values. The others may be tuned.
	Must []string
}

// Topics is the topic table.
func Topics() []TopicSpec {
	return []TopicSpec{
		{Topic: Heartbeats, ByUser: true, Must: []string{"message.timestamp.type", "cleanup.policy"},
			Config: map[string]string{
				"cleanup.policy":         "delete",
				"message.timestamp.type": "LogAppendTime",
				"retention.ms":           millis(15 * time.Minute),
				"segment.ms":             millis(3 * time.Minute),
			}},
		{Topic: Transitions, ByUser: true, Must: []string{"cleanup.policy"}, Config: map[string]string{
			"cleanup.policy": "delete",
			"retention.ms":   millis(30 * 24 * time.Hour),
		}},
		{Topic: Statuses, ByUser: true, Must: []string{"cleanup.policy"}, Config: map[string]string{
			"cleanup.policy":            "compact",
			"min.cleanable.dirty.ratio": "0.2",
			"delete.retention.ms":       millis(24 * time.Hour),
			"segment.bytes":             strconv.Itoa(64 << 20),
		}},
		{Topic: Fanout, Config: map[string]string{
			"cleanup.policy": "delete",
			"retention.ms":   millis(time.Hour),
		}},
		{Topic: Deliveries, Config: map[string]string{
			"cleanup.policy": "delete",
			"retention.ms":   millis(24 * time.Hour),
		}},
		{Topic: DeadLetter, Config: map[string]string{
			"cleanup.policy": "delete",
			"retention.ms":   millis(7 * 24 * time.Hour),
		}},
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// RedisPrefix begins the names of keys and channels in Redis.
const RedisPrefix = "presence:"
