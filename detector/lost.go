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
// never decrease there, and instants by a day at most. All are read if none of these is a transition.
const tail = 100_000

// lost completes a plan without a commit: the partition has lost its log epoch, its clock and its
// position, and offline users may have no status.
func (p *Partition) lost(ctx context.Context, at stream.Assignment, plan *plan,
	read stream.ReadFunc) (published, error) {
	var found published
	var t schemas.Transition
	for _, from := range []int64{stream.Last(tail), -1} {
		err := read(ctx, schemas.Transitions, from, -1, func(r *schemas.Record) error {
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
		if found.epoch != 0 {
			break
		}
	}
	plan.latest = found.latest
	if found.epoch == 0 {
		return found, nil
	}
	known, err := p.caused(ctx, at, found, read)
	if err != nil {
		return found, err
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

// longestWait is the longest wait of a valid policy's bucket.
const longestWait = schemas.Millis(schemas.LongestWait / time.Millisecond)

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
		{"silent_from_ms", s.SilentFrom}, {"held_ms", s.Held}, {"bucket_at_ms", s.Bucket.At},
		{"published_at_ms", s.PublishedAt}, {"policy_at_ms", s.PolicyAt}, {"pending_since_ms", s.Pending.Since},
		{"pending_kinds_at_ms", s.Pending.KindsAt}, {"pending_visibility_at_ms", s.Pending.VisibilityAt},
		{"shown_at_ms", s.ShownAt}, {"presumed_at_ms", s.Presumed.At}, {"presumed_active_at_ms", s.Presumed.Active},
		{"unsure_since_ms", s.UnsureSince},
	} {
		if of.at < 0 || of.at > latest {
			return 0, nil, schemas.Invalid(of.field,
				fmt.Sprintf("is %d, must be between 0 and %d: no later instant had been published", of.at, latest))
		}
	}
	switch {
	case s.Bucket.Lacks < 0 || s.Bucket.Lacks > longestWait:
		return 0, nil, schemas.Invalid("bucket_lacks_ms",
			fmt.Sprintf("is %d, must be between 0 and %d", s.Bucket.Lacks, longestWait))
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

// left is when the user of a tombstone left, if that is known and possible.
func (b *bounds) left(r *schemas.Record) schemas.Millis {
	if left := schemas.LeftAt(r); r.Value == nil && left <= b.latest(r) {
		return left
	}
	return 0
}

// policies reads a record of the status topic with the policies of a tenant. There are no tombstones.
func (b *bounds) policies(tenant string, r *schemas.Record) (*schemas.TenantPolicies, error) {
	if r.Value == nil {
		return nil, schemas.Invalid("policies", "are gone: no detector writes a tombstone for them")
	}
	t, err := schemas.DecodeTenantPolicies(r.Value)
	switch {
	case err != nil:
		return nil, err
	case t.Tenant != tenant:
		return nil, schemas.Invalid("tenant", "is not that of the key")
	case t.Born < 0 || t.Born.LogEpoch() > MaxLogEpoch:
		return nil, schemas.Invalid("born_version", "names a log epoch that cannot be")
	}
	for _, p := range t.Policies {
		if p.Version < 0 || p.Version.LogEpoch() > MaxLogEpoch || b.checkpoint != nil && b.after(p.Version) {
			return nil, schemas.Invalid("version", "names a record after the committed one")
		}
	}
	return t, nil
}

func (b *bounds) after(v schemas.Version) bool {
	epoch := v.LogEpoch()
	if epoch != b.checkpoint.LogEpoch {
		return epoch > b.checkpoint.LogEpoch
	}
	base, known := b.checkpoint.BaseOf(epoch)
	return known && base+v.Offset() > b.committed
}
