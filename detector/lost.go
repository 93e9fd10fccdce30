package detector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// published is what the transitions topic has of a partition whose commit is lost.
type published struct {
	epoch   uint32          // the greatest log epoch
	newest  schemas.Version // the greatest version
	written schemas.Millis  // when that was written
	latest  schemas.Millis  // the latest instant
}

// MaxLogEpoch is the greatest log epoch that is accepted, so that a forged one cannot use up the
// epochs.
const MaxLogEpoch = 1000

// tail is how many of the last offsets of the transitions are read for published: log epochs and versions
// never decrease there, and instants by a day at most.
const tail = 100_000

// lost completes a plan without a commit: the partition has lost its log epoch, its clock and its
// position. epoch is the greatest that the status topic names: an earlier one may have been that of another log.
func (p *Partition) lost(ctx context.Context, at stream.Assignment, plan *plan, epoch uint32,
	read stream.ReadFunc) (published, error) {
	var found published
	var t schemas.Transition
	err := read(ctx, schemas.Transitions, stream.Last(tail), -1, func(r *schemas.Record) error {
		if t.Decode(r.Value) != nil || t.Version.LogEpoch() > MaxLogEpoch || t.At > r.Time+maxAhead {
			return nil // unreadable or impossible
		}
		found.epoch, found.latest = max(found.epoch, t.Version.LogEpoch()), max(found.latest, t.At)
		if t.Version > found.newest {
			found.newest, found.written = t.Version, r.Time
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("looking for the newest change in the transitions: %w", err)
	}
	if found.epoch == 0 {
		return found, nil
	}
	known := false
	if found.epoch >= epoch {
		if known, err = p.caused(ctx, at, found, read); err != nil {
			return found, err
		}
	}
	plan.from = at.LogStart
	if known {
		plan.to = max(plan.next, found.newest.Offset()+1)
	} else {
		plan.to, plan.handled = at.LogEnd, found.latest
	}
	return found, nil
}

// caused reports whether the record that the newest version names is still the one that caused it:
// it exists and is not younger.
func (p *Partition) caused(ctx context.Context, at stream.Assignment, found published,
	read stream.ReadFunc) (bool, error) {
	offset, known := found.newest.Offset(), false
	if offset < at.LogStart || offset >= at.LogEnd {
		return false, nil
	}
	err := read(ctx, schemas.Heartbeats, offset, offset+1, func(r *schemas.Record) error {
		known = r.Offset == offset && r.Time <= found.written
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) {
		return false, fmt.Errorf("reading heartbeat %d, which the newest change names: %w", offset, err)
	}
	return known, nil
}

// maxAhead is how much later than its record the instants of a status or transition may be. The
// detector stamps records with its log time at least (Partition.stamp); only a topic with LogAppendTime
// has earlier ones.
const maxAhead = schemas.Millis(24 * time.Hour / time.Millisecond)

// bounds are the limits of a valid status.
type bounds struct {
	read       schemas.Status      // the one that status returned last
	checkpoint *schemas.Checkpoint // nil: not known
	committed  int64
	partition  int32
	partitions int32
}

// status reads a record of the status topic; nil for a tombstone. The status is valid until the next call.
func (b *bounds) status(r *schemas.Record) (schemas.UserID, *schemas.Status, error) {
	user, err := schemas.UserOfKey(r.Key)
	if err != nil {
		return 0, nil, err
	}
	if schemas.PartitionOf(user, b.partitions) != b.partition {
		return 0, nil, schemas.Invalid("key", "is that of a user of another partition")
	}
	if r.Value == nil {
		return user, nil, nil
	}
	s := &b.read
	if err := s.Decode(r.Value); err != nil {
		return 0, nil, err
	}
	latest := b.latest(r)
	for _, of := range [...]struct {
		field string
		at    schemas.Millis
	}{
		{"since_ms", s.Since}, {"last_seen_at_ms", s.LastSeen}, {"last_active_at_ms", s.LastActive},
		{"shown_at_ms", s.ShownAt}, {"unsure_since_ms", s.UnsureSince}, {"named_until_ms", s.NamedUntil},
	} {
		if of.at < 0 || of.at > latest {
			return 0, nil, schemas.Invalid(of.field,
				fmt.Sprintf("is %d, must be between 0 and %d: no later instant had been published", of.at, latest))
		}
	}
	switch {
	case s.User != user:
		return 0, nil, schemas.Invalid("user_id", "is not that of the key")
	case s.Version < 0 || s.Version.LogEpoch() > MaxLogEpoch:
		return 0, nil, schemas.Invalid("version", "names a log epoch that cannot be")
	case b.checkpoint != nil && b.after(s.Version):
		return 0, nil, schemas.Invalid("version", "names a record after the committed one")
	}
	return user, s, nil
}

// latest is the latest possible instant in a record of the status topic. The checkpoint's log time is no bound:
// after a lost commit it may be earlier than older records.
func (b *bounds) latest(r *schemas.Record) schemas.Millis {
	if b.checkpoint == nil {
		return r.Time + maxAhead
	}
	return max(r.Time, b.checkpoint.LogTime) + maxAhead
}

// rules reads a record of the status topic with the rules of the partition. There are no tombstones.
func (b *bounds) rules(r *schemas.Record) (*schemas.PartitionRules, error) {
	if r.Value == nil {
		return nil, schemas.Invalid("rules", "are gone: no detector writes a tombstone for them")
	}
	rules, err := schemas.DecodePartitionRules(r.Value)
	switch {
	case err != nil:
		return nil, err
	case rules.LogEpoch > MaxLogEpoch:
		return nil, schemas.Invalid("log_epoch", "cannot be")
	case len(rules.Tenants) > schemas.MaxTenantPolicies:
		return nil, errTooManyTenants
	}
	return rules, nil
}

func (b *bounds) after(v schemas.Version) bool {
	epoch := v.LogEpoch()
	if epoch != b.checkpoint.LogEpoch {
		return epoch > b.checkpoint.LogEpoch
	}
	base, known := b.checkpoint.BaseOf(epoch)
	return known && base+v.Offset() > b.committed
}
