// Package origin distinguishes records of the detector from forged ones.
package origin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// DetectorGroup is the consumer group of the detector.
const DetectorGroup = "stillhere.detector"

// Origin decides which transitions, statuses, jobs and deliveries can come from the detector's log.
// Otherwise anyone with write access to their topics could freeze a user for ever: consumers drop
// what is not newer than the greatest version they have seen. Safe for concurrent use.
//
// A version names the heartbeats record that caused it, and the detector commits the offset after
// that record together with its output. So the causing record of every committed output is before
// the committed offset.
type Origin struct {
	count      func(ctx context.Context) (int32, error) // the partitions of the heartbeats
	commits    func(ctx context.Context, settled bool, partitions ...int32) (map[int32]kafka.CommittedOffset, error)
	settledEnd func(ctx context.Context, topic schemas.Topic, partition int32) (int64, error)
	now        func() time.Time

	// looking is held during requests to Kafka, and taken before mu. It is not a mutex: virtual
	// time does not advance while a goroutine waits for a mutex.
	looking chan struct{}

	mu         sync.Mutex // not held during requests
	partitions int32      // of the heartbeats; 0: not known yet
	last       map[int32]commit
	at         time.Time // of last
	judged     map[position]judgment
}

// position is a partition of a topic, and the partition of the heartbeats whose commit counts.
type position struct {
	topic         schemas.Topic
	partition, of int32
}

// judgment is a commit that covers the causes of all records before an offset.
type judgment struct {
	before int64
	commit commit
}

const (
	// lookAgain is how long the answer is cached that the detector has committed nothing.
	lookAgain   = time.Second
	lookTimeout = 5 * time.Second
	// For fresh after a lookup, versions of up to soon records beyond the commit are accepted:
	// most published records are newer than the last lookup.
	fresh = 100 * time.Millisecond
	soon  = 1_000
	// ahead is how much later than the log time of the commit the instants of a transition may be:
	// versions after the commit, or of an earlier log epoch.
	ahead = schemas.Millis(24 * time.Hour / time.Millisecond)
)

// New returns an Origin that looks up the detector's commits. partitions is the number of the
// heartbeats'; 0: it is looked up when needed.
func New(cluster kafka.Config, reader *kafka.Reader, partitions int32) *Origin {
	group := cluster.GroupName(DetectorGroup)
	return &Origin{partitions: partitions, looking: make(chan struct{}, 1), now: time.Now,
		judged: map[position]judgment{}, settledEnd: reader.LastStableOffset,
		count: func(ctx context.Context) (int32, error) { return reader.DescribedPartitions(ctx, schemas.Heartbeats) },
		commits: func(ctx context.Context, settled bool, partitions ...int32) (map[int32]kafka.CommittedOffset, error) {
			return reader.Commits(ctx, group, schemas.Heartbeats, settled, partitions...)
		}}
}

// commit is what a commit of the detector proves about versions.
type commit struct {
	offset    int64 // the next record
	epoch     uint32
	base      int64 // of the epoch
	baseKnown bool
	latest    schemas.Millis // the log time
}

// commitOf is the zero commit if the detector has committed nothing readable: it then starts again
// with the epoch after the last published one.
func commitOf(c kafka.CommittedOffset, found bool) commit {
	if !found || c.Metadata == "" {
		return commit{}
	}
	checkpoint, err := schemas.DecodeCheckpoint(c.Metadata)
	if err != nil {
		return commit{}
	}
	known := commit{offset: c.Offset, epoch: checkpoint.LogEpoch, latest: checkpoint.LogTime}
	known.base, known.baseKnown = checkpoint.BaseOf(checkpoint.LogEpoch)
	return known
}

// claim is what has to be of the detector's log.
type claim struct {
	version schemas.Version
	latest  schemas.Millis // instant
}

// has reports whether the record of the version is at most slack records beyond the commit, and the latest
// instant not beyond its log time.
func (c commit) has(of claim, slack int64) bool {
	v := of.version
	switch epoch := v.LogEpoch(); {
	case c.epoch == 0:
		return true
	case of.latest > c.latest+ahead:
		return false
	case epoch < c.epoch:
		return true
	case epoch > c.epoch:
		return false
	case !c.baseKnown:
		return true
	}
	return c.base+v.Offset() < c.offset+slack
}

// Check returns a *schemas.FieldError for a transition that cannot come from this log, or for a
// status, job or delivery with such a transition. It was read as committed, in record r of topic.
// It cannot come from this log if
//
//   - its version names a record that the detector had not reached when r was written;
//   - an instant is more than a day later than the log time that the detector had reached;
//   - topic is partitioned by user, and r is not in the user's partition.
//
// No clock of a process decides. Any other error means that the lookup failed.
func (o *Origin) Check(topic schemas.Topic, r *schemas.Record, t *schemas.Transition) error {
	return o.examine(topic, r, t.User, claim{t.Version, max(t.At, t.LastSeen, t.LastActive)})
}

func (o *Origin) examine(topic schemas.Topic, r *schemas.Record, user schemas.UserID, c claim) error {
	partitions, err := o.partitionsNow()
	if err != nil {
		return err
	}
	of := schemas.PartitionOf(user, partitions)
	if byUser := topic == schemas.Transitions || topic == schemas.Statuses; byUser && of != r.Partition {
		return notOfThisLog("user_id", "is %d, whose partition is %d and not %d", user, of, r.Partition)
	}
	known, has, err := o.lookUp(position{topic, r.Partition, of}, r.Offset, c)
	if err != nil {
		return fmt.Errorf("looking up how far the detector is in partition %d: %w", of, err)
	}
	switch v := c.version; {
	case has:
		return nil
	case c.latest > known.latest+ahead:
		return notOfThisLog("at_ms", "%s is more than a day later than the detector's log time %s", c.latest, known.latest)
	case v.LogEpoch() > known.epoch:
		return notOfThisLog("version", "is of log epoch %d, the detector's is %d", v.LogEpoch(), known.epoch)
	default:
		return notOfThisLog("version", "is of record %d of the heartbeats, the detector has come to %d",
			known.base+v.Offset(), known.offset)
	}
}

// partitionsNow is the number of partitions of the heartbeats, constant while a process runs.
func (o *Origin) partitionsNow() (int32, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.partitions > 0 {
		return o.partitions, nil
	}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	count, err := o.count(ctx)
	o.mu.Lock()
	if err != nil {
		return 0, fmt.Errorf("looking up the partitions: %w", err)
	}
	o.partitions = count
	return count, nil
}

func notOfThisLog(field, format string, args ...any) error {
	return &schemas.FieldError{Code: "not_of_this_log", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// lookUp reports whether c, read at an offset of a position, can come from the detector, and the
// commit that decides it: one that covers c, or one looked up after the record was read.
func (o *Origin) lookUp(at position, offset int64, c claim) (known commit, has bool, err error) {
	if known, has, sure := o.recall(at, offset, c); sure {
		return known, has, nil
	}
	o.looking <- struct{}{}
	defer func() { <-o.looking }()
	if known, has, sure := o.recall(at, offset, c); sure { // another goroutine has looked it up
		return known, has, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	all, err := o.commits(ctx, false)
	if err != nil {
		return commit{}, false, err
	}
	last := make(map[int32]commit, len(all))
	for p, committed := range all {
		last[p] = commitOf(committed, true)
	}
	o.mu.Lock()
	o.last, o.at = last, o.now()
	o.mu.Unlock()
	if known := last[at.of]; known.has(c, 0) {
		return known, true, nil
	}
	// The answer does not have a commit under way. So ask for the end first: records that are read
	// as committed before it belong to commits that have ended by then, or are under way.
	end, err := o.settledEnd(ctx, at.topic, at.partition)
	if err != nil {
		return commit{}, false, err
	}
	one, err := o.commits(ctx, true, at.of)
	if err != nil {
		return commit{}, false, err
	}
	found, ok := one[at.of]
	known = commitOf(found, ok)
	if has = known.has(c, 0); !has && offset >= end {
		return commit{}, false, fmt.Errorf("the record at offset %d is not before the end, %d", offset, end)
	}
	if known.epoch != 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.judged[at] = judgment{end, known}
	}
	return known, has, nil
}

// recall decides by earlier lookups; sure is false if they do not suffice.
func (o *Origin) recall(at position, offset int64, c claim) (known commit, has, sure bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	age := o.now().Sub(o.at)
	known = o.last[at.of]
	switch {
	case o.last == nil:
	case known.epoch == 0:
		if age < lookAgain {
			return known, true, true
		}
	case known.has(c, 0), age < fresh && known.has(c, soon):
		return known, true, true
	}
	if j, ok := o.judged[at]; ok && (offset < j.before || j.commit.has(c, 0)) {
		return j.commit, j.commit.has(c, 0), true
	}
	return commit{}, false, false
}

// Decode is stream.DecodeTransition with Check.
func (o *Origin) Decode(r *schemas.Record) (stream.Logged[*schemas.Transition], error) {
	item, err := stream.DecodeTransition(r)
	if err == nil {
		err = o.Check(schemas.Transitions, r, item.Message)
	}
	return item, err
}

// CheckStatus is Check for a status.
func (o *Origin) CheckStatus(r *schemas.Record, s *schemas.Status) error {
	if s.UnsureSince < 0 {
		return notOfThisLog("unsure_since_ms", "is %d, must not be negative", s.UnsureSince)
	}
	return o.examine(schemas.Statuses, r, s.User, claim{s.Version, max(s.Since, s.LastSeen, s.LastActive, s.UnsureSince)})
}
