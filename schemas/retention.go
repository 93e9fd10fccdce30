package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Retention is how long the topics keep records. 0 stands for the default in brackets.
type Retention struct {
	// Heartbeats [15m] must be at least MinHeartbeats. Snapshots are kept as long, and an hour at least.
	Heartbeats time.Duration
	// Transitions [720h] bounds what rebuild and replay can read from the topic.
	Transitions time.Duration
	// Status [168h] is how long a superseded status stays until Kafka compacts it. The newest
	// status of a user stays while the user is present or hidden, for 31 days after a show, and
	// after an erasure until its withheld_until_ms.
	Status time.Duration
	// Seen [10m] must be longer than readers are away for hints to be of use to them.
	Seen time.Duration
	// Fanout [1h], Deliveries [24h], DeadLetter [168h].
	Fanout, Deliveries, DeadLetter time.Duration
	// Graph [720h] is how long the removal of an edge stays. A reader that was away for longer misses it.
	Graph time.Duration
}

const day = 24 * time.Hour

// WithDefaults returns r with the defaults for zero values.
func (r Retention) WithDefaults() Retention {
	for _, f := range r.fields(Retention{Heartbeats: 15 * time.Minute, Transitions: 30 * day, Status: 7 * day,
		Seen: 10 * time.Minute, Fanout: time.Hour, Deliveries: day, DeadLetter: 7 * day, Graph: 30 * day}) {
		if *f.set == 0 {
			*f.set = f.other
		}
	}
	return r
}

type retained struct {
	topic Topic
	set   *time.Duration
	other time.Duration // the same field of another Retention
}

// fields lists the fields of r, with those of another Retention beside them.
func (r *Retention) fields(other Retention) []retained {
	return []retained{
		{Heartbeats, &r.Heartbeats, other.Heartbeats},
		{Transitions, &r.Transitions, other.Transitions},
		{Statuses, &r.Status, other.Status},
		{SeenHints, &r.Seen, other.Seen},
		{Fanout, &r.Fanout, other.Fanout},
		{Deliveries, &r.Deliveries, other.Deliveries},
		{DeadLetter, &r.DeadLetter, other.DeadLetter},
		{Graph, &r.Graph, other.Graph},
	}
}

// ParseRetention reads TOPIC=DURATION, separated by commas, such as "transitions=2160h,graph=1000h".
func ParseRetention(text string) (r Retention, err error) {
	for word := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(word, "=")
		fields := r.fields(Retention{})
		i := slices.IndexFunc(fields, func(f retained) bool { return string(f.topic) == name })
		if i < 0 {
			return r, fmt.Errorf("%q is no topic: it must be TOPIC=DURATION, such as transitions=2160h", name)
		}
		if *fields[i].set, err = time.ParseDuration(value); err != nil || *fields[i].set == 0 {
			return r, fmt.Errorf("%s: %q must be a duration, such as 48h", name, value)
		}
	}
	return r, nil
}

// Given reports whether the retention of a topic is set.
func (r Retention) Given(topic Topic) bool {
	if topic == Snapshots {
		topic = Heartbeats
	}
	for _, f := range r.fields(Retention{}) {
		if f.topic == topic {
			return *f.set != 0
		}
	}
	return false
}

// LatestSnapshot is the log time after which the detector begins the next snapshot of its state, at the latest.
const LatestSnapshot = 5 * time.Minute

// MinHeartbeats is the least retention of heartbeats. A restart reads those since the newest complete snapshot, which
// is LatestSnapshot old when the next one begins; that takes minutes where a million users send nothing.
const MinHeartbeats = 2 * LatestSnapshot

// Snapshots is the retention of snapshots. One is read as long as the heartbeats after it are there, so it must not go
// before them.
func (r Retention) Snapshots() time.Duration { return max(time.Hour, r.Heartbeats) }

// minRetention is the shortest retention: Kafka looks for expired segments every five minutes.
const minRetention = 5 * time.Minute

// Validate reports all faults, joined; each names its setting.
func (r Retention) Validate() error {
	var faults []error
	for _, f := range r.fields(Retention{}) {
		if *f.set != 0 && *f.set < minRetention && f.topic != Heartbeats {
			faults = append(faults, fmt.Errorf("retention: %s: must be at least %s, is %s", f.topic, minRetention, *f.set))
		}
	}
	if r.Heartbeats != 0 && r.Heartbeats < MinHeartbeats {
		faults = append(faults, fmt.Errorf("retention: heartbeats: must be at least %s, twice the age of a snapshot from which a "+
			"restart of the detector reads heartbeats, is %s", MinHeartbeats, r.Heartbeats))
	}
	return errors.Join(faults...)
}

// segment is how long a topic writes one segment. Kafka deletes closed segments only, so a record
// stays for its retention and up to that much longer.
func segment(retention time.Duration) time.Duration { return min(retention/5, day) }
