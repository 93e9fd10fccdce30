// Package origin tells records that the detector has written from forged ones.
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

// Origin tells which transitions, statuses, jobs and deliveries can be of the detector's log.
// Whoever may write to their topics could else freeze a user for ever: consumers drop what
// is not newer than the greatest version they have seen. Any goroutine may use it.
//
// A version names the record of the heartbeats that led to it, and the detector commits the
// offset after that record together with what the record led to. So whatever can be read as
// committed is of a record before the committed offset.
type Origin struct {
	count      func(ctx context.Context) (int32, error) // the partitions of the heartbeats
	commits    func(ctx context.Context, settled bool, partitions ...int32) (map[int32]kafka.CommittedOffset, error)
	settledEnd func(ctx context.Context, topic schemas.Topic, partition int32) (int64, error)
	now        func() time.Time

	// looking has room for who asks Kafka, taken before mu. It is no mutex: virtual time stands
	// still while somebody waits for one.
	looking chan struct{}

	mu         sync.Mutex // not held while anything is asked
	partitions int32      // of the heartbeats; 0: not known yet
	last       map[int32]commit
	at         time.Time // of last
	judged     map[position]judgment
}

// position is a partition of a topic, and that of the heartbeats whose commit counts.
type position struct {
	topic         schemas.Topic
	partition, of int32
}

// judgment is a commit that has all that led to records before an offset.
type judgment struct {
	before int64
	commit commit
}

const (
	// lookAgain is how long it counts that the detector has committed nothing.
	lookAgain   = time.Second
	lookTimeout = 5 * time.Second
	// For fresh after a look, versions of up to soon records beyond the commit are not looked
	// up: what the detector publishes is mostly newer than the last look.
	fresh = 100 * time.Millisecond
	soon  = 1_000
	// ahead is by how much a transition's instants may be later than its record: they are
	// log time, the record's is of the detector's clock.
	ahead = schemas.Millis(60_000)
)

// New looks at the detector's commits. partitions is how many the heartbeats have; 0:
// that is looked up when it is needed.
func New(cluster kafka.Config, reader *kafka.Reader, partitions int32) *Origin {
	group := cluster.GroupName(DetectorGroup)
	return &Origin{partitions: partitions, looking: make(chan struct{}, 1), now: time.Now, judged: map[position]judgment{}, settledEnd: reader.LastStableOffset,
		count: func(ctx context.Context) (int32, error) { return reader.DescribedPartitions(ctx, schemas.Heartbeats) },
		commits: func(ctx context.Context, settled bool, partitions ...int32) (map[int32]kafka.CommittedOffset, error) {
			return reader.Commits(ctx, group, schemas.Heartbeats, settled, partitions...)
		}}
}

// commit is what a commit of the detector's says of versions.
type commit struct {
	offset    int64 // the next record
	epoch     uint32
	base      int64 // of the epoch
	baseKnown bool
	within    schemas.Version // the last that the record at offset has led to so far; 0: none
}

// commitOf is the zero commit where the detector has committed nothing that can be read: it
// begins anew then, after the last epoch that it published.
func commitOf(c kafka.CommittedOffset, found bool) commit {
	if !found || c.Metadata == "" {
		return commit{}
	}
	checkpoint, err := schemas.DecodeCheckpoint(c.Metadata)
	if err != nil {
		return commit{}
	}
	known := commit{offset: c.Offset, epoch: checkpoint.LogEpoch}
	known.base, known.baseKnown = checkpoint.BaseOf(checkpoint.LogEpoch)
	if checkpoint.Published != nil {
		known.within = checkpoint.Published.Version
	}
	return known
}

// has tells whether v may be of a record up to slack records beyond the commit.
func (c commit) has(v schemas.Version, slack int64) bool {
	switch epoch := v.LogEpoch(); {
	case c.epoch == 0, epoch < c.epoch:
		return true
	case epoch > c.epoch:
		return epoch <= c.within.LogEpoch()
	case !c.baseKnown, c.within >= v:
		return true
	}
	end := c.offset + slack
	if c.within != 0 {
		end++
	}
	return c.base+v.Offset() < end
}

// Check is a *schemas.FieldError for a transition, or what a status, a job or a delivery says
// of one, that cannot be of this log. It was read as committed, in record r of topic. It
// cannot be where
//
//   - its version is of a record that the detector has not come to: looked up after r was there;
//   - an instant is more than a minute later than the record and now (both, because the clock
//     of the detector that stamped the record may be slow);
//   - topic goes by user, and r is not in the user's partition.
//
// Any other error says that it could not be looked up.
func (o *Origin) Check(topic schemas.Topic, r *schemas.Record, t *schemas.Transition) error {
	limit := max(r.Time, schemas.MillisOf(o.now())) + ahead
	for _, instant := range []struct {
		field string
		at    schemas.Millis
	}{{"at_ms", t.At}, {"last_seen_at_ms", t.LastSeen}, {"last_active_at_ms", t.LastActive}} {
		if instant.at > limit {
			return notOfThisLog(instant.field, "%s is more than a minute later than the record, which no detector of this log writes", instant.at)
		}
	}
	partitions, err := o.partitionsNow()
	if err != nil {
		return err
	}
	of := schemas.PartitionOf(t.User, partitions)
	if byUser := topic == schemas.Transitions || topic == schemas.Statuses; byUser && of != r.Partition {
		return notOfThisLog("user_id", "is %d, whose partition is %d and not %d", t.User, of, r.Partition)
	}
	known, has, err := o.lookUp(position{topic, r.Partition, of}, r.Offset, t.Version)
	if err != nil {
		return fmt.Errorf("looking up how far the detector is in partition %d: %w", of, err)
	}
	switch v := t.Version; {
	case has:
		return nil
	case v.LogEpoch() > known.epoch:
		return notOfThisLog("version", "is of log epoch %d, the detector's is %d", v.LogEpoch(), known.epoch)
	default:
		return notOfThisLog("version", "is of record %d of the heartbeats, the detector has come to %d", known.base+v.Offset(), known.offset)
	}
}

// partitionsNow is how many partitions the heartbeats have, which stays so while a process runs.
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

// lookUp tells whether v, read at an offset of a position, can be of the detector, and by which
// of its commits that was judged: one that has v, or one looked up when the record was there.
func (o *Origin) lookUp(at position, offset int64, v schemas.Version) (known commit, has bool, err error) {
	if known, has, sure := o.recall(at, offset, v); sure {
		return known, has, nil
	}
	o.looking <- struct{}{}
	defer func() { <-o.looking }()
	if known, has, sure := o.recall(at, offset, v); sure { // another has looked meanwhile
		return known, has, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	all, err := o.commits(ctx, false)
	if err != nil {
		return commit{}, false, err
	}
	last := make(map[int32]commit, len(all))
	for p, c := range all {
		last[p] = commitOf(c, true)
	}
	o.mu.Lock()
	o.last, o.at = last, o.now()
	o.mu.Unlock()
	if known := last[at.of]; known.has(v, 0) {
		return known, true, nil
	}
	// What is being committed is not in it yet. The end is asked for first: what is read as
	// committed before it is in what was committed by then, or is being committed.
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
	if has = known.has(v, 0); !has && offset >= end {
		return commit{}, false, fmt.Errorf("the record at offset %d is not before the end, %d", offset, end)
	}
	if known.epoch != 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.judged[at] = judgment{end, known}
	}
	return known, has, nil
}

// recall judges v by what was looked up before; sure is false where that is not enough.
func (o *Origin) recall(at position, offset int64, v schemas.Version) (known commit, has, sure bool) {
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
	case known.has(v, 0), age < fresh && known.has(v, soon):
		return known, true, true
	}
	if j, ok := o.judged[at]; ok && (offset < j.before || j.commit.has(v, 0)) {
		return j.commit, j.commit.has(v, 0), true
	}
	return commit{}, false, false
}

// Decode is stream.DecodeTransition of what can be of this log.
func (o *Origin) Decode(r *schemas.Record) (stream.Logged[*schemas.Transition], error) {
	item, err := stream.DecodeTransition(r)
	if err == nil {
		err = o.Check(schemas.Transitions, r, item.Message)
	}
	return item, err
}

// CheckStatus is Check of what a status says.
func (o *Origin) CheckStatus(r *schemas.Record, s *schemas.Status) error {
	return o.Check(schemas.Statuses, r, &schemas.Transition{User: s.User, Version: s.Version, At: s.Since, LastSeen: s.LastSeen, LastActive: s.LastActive})
}
