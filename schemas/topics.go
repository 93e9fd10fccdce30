package schemas

import (
	"math"
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
	Graph       Topic = "graph"
	SeenHints   Topic = "seen"
	DeadLetter  Topic = "deadletter"
	Policies    Topic = "policies"
	Snapshots   Topic = "snapshots"
	Gateways    Topic = "gateways"
	Names       Topic = "names"    // in pipelines with --ids text alone
	Pipeline    Topic = "pipeline" // likewise
	Erasures    Topic = "erasures" // likewise
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
	// Single topics have one partition.
	Single bool
	// Config are the topic's settings as Kafka names them.
	Config map[string]string
	// Must are the names of the settings that the pipeline depends on: it refuses to start with
	// other values. The others may be tuned.
	Must []string
}

// Topics is the topic table with the default retention.
func Topics() []TopicSpec { return Retention{}.Topics() }

// Topics is the topic table with this retention.
func (r Retention) Topics() []TopicSpec {
	r = r.WithDefaults()
	heartbeats := kept(r.Heartbeats)
	heartbeats["message.timestamp.type"] = "LogAppendTime"
	gateways := kept(15 * time.Minute)
	gateways["message.timestamp.type"] = "LogAppendTime"
	return ofAnyTime([]TopicSpec{
		{Topic: Heartbeats, ByUser: true, Must: []string{"message.timestamp.type", "cleanup.policy"}, Config: heartbeats},
		{Topic: Gateways, Single: true, Must: []string{"message.timestamp.type", "cleanup.policy"}, Config: gateways},
		{Topic: Transitions, ByUser: true, Must: []string{"cleanup.policy"}, Config: kept(r.Transitions)},
		{Topic: Statuses, ByUser: true, Must: []string{"cleanup.policy"}, Config: compacted(r.Status, day)},
		{Topic: Snapshots, ByUser: true, Must: []string{"cleanup.policy"}, Config: kept(r.Snapshots())},
		{Topic: SeenHints, ByUser: true, Must: []string{"cleanup.policy"}, Config: kept(r.Seen)},
		{Topic: Fanout, Config: kept(r.Fanout)},
		{Topic: Deliveries, Config: kept(r.Deliveries)},
		{Topic: Graph, Must: []string{"cleanup.policy"}, Config: compacted(7*day, r.Graph)},
		{Topic: DeadLetter, Config: kept(r.DeadLetter)},
		{Topic: Policies, Single: true, Must: []string{"cleanup.policy"}, Config: map[string]string{"cleanup.policy": "compact"}},
	})
}

// LatestTime is the setting by which brokers refuse records whose time is too far ahead of their clock, since
// Kafka 3.6: an hour by default. The clocks of brokers and processes may differ by more, and a broker's clock
// may have been set back.
const LatestTime = "message.timestamp.after.max.ms"

// ofAnyTime lets the topics whose records are stamped by their writers take any time.
func ofAnyTime(topics []TopicSpec) []TopicSpec {
	for _, t := range topics {
		if t.Config["message.timestamp.type"] == "" {
			t.Config[LatestTime] = strconv.Itoa(math.MaxInt64)
		}
	}
	return topics
}

// TextTopics are the topics that pipelines with --ids text have besides. The first record of
// Pipeline, a PipelineIdentity, counts and stays, so the topic is not compacted. The others are Tenants,
// the newest of each key counts. All of them stay, so ids of erased users are in a topic of their own,
// which is short: a process that has missed a record repeats names before long.
func TextTopics() []TopicSpec {
	return ofAnyTime([]TopicSpec{
		{Topic: Names, ByUser: true, Must: []string{"cleanup.policy"}, Config: compacted(7*day, 30*day)},
		{Topic: Pipeline, Single: true, Must: []string{"cleanup.policy", "retention.ms"}, Config: map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1",
		}},
		{Topic: Erasures, Single: true, Must: []string{"cleanup.policy"}, Config: kept(time.Hour)},
	})
}

// compacted are the settings of a topic that is compacted after so long at most, and keeps tombstones for so long.
func compacted(after, tombstones time.Duration) map[string]string {
	return map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "max.compaction.lag.ms": millis(after),
		"delete.retention.ms": millis(tombstones), "segment.bytes": strconv.Itoa(64 << 20)}
}

// kept are the settings of a topic that is not compacted.
func kept(d time.Duration) map[string]string {
	return map[string]string{"cleanup.policy": "delete", "retention.ms": millis(d), "segment.ms": millis(segment(d))}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
