// Package online knows, in every process that expands followers, who is here now and
// who hides: from presence.status, read from its start.
package online

import (
	"context"
	"fmt"
	"sync"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/stillhere/stillhere/schemas"
)

// Seen is what a record of presence.status says of a user here.
type Seen struct {
	User   schemas.UserID
	Here   bool
	Hidden schemas.Version // of the newest transition while the user hides, else 0
}

// Decode reads a record of presence.status.
func Decode(r *schemas.Record) (Seen, error) { return decode(r, nil) }

// Checked is Decode of statuses that check takes.
func Checked(check func(*schemas.Record, *schemas.Status) error) func(*schemas.Record) (Seen, error) {
	return func(r *schemas.Record) (Seen, error) { return decode(r, check) }
}

func decode(r *schemas.Record, check func(*schemas.Record, *schemas.Status) error) (Seen, error) {
	user, err := schemas.UserOfKey(r.Key)
	if err != nil || r.Value == nil {
		return Seen{User: user}, err
	}
	status, err := schemas.DecodeStatus(r.Value)
	if err == nil && check != nil {
		if err = check(r, status); err == nil && status.User != user {
			err = schemas.Invalid("key", fmt.Sprintf("is of user %d, the status of %d", user, status.User))
		}
	}
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{User: user, Here: status.State != schemas.Offline}
	if status.Visibility == schemas.Nobody {
		seen.Hidden = status.Version
	}
	return seen, nil
}

// Register holds who is here: a compressed bitmap, about 2 bytes a user where ids
// are dense, 10 where they are random. Any goroutine may use it.
type Register struct {
	onlyHides bool // here stays empty

	mu     sync.RWMutex // never held while waiting for anything
	here   *roaring64.Bitmap
	hidden map[schemas.UserID]schemas.Version
	places map[int32]schemas.Kept // up to where each partition was taken in
}

// NewRegister makes an empty one.
func NewRegister() *Register {
	return &Register{here: roaring64.New(), hidden: map[schemas.UserID]schemas.Version{}, places: map[int32]schemas.Kept{}}
}

// OnlyWhoHides makes one that knows who hides and not who is here, which nobody then
// asks it.
func OnlyWhoHides() *Register {
	r := NewRegister()
	r.onlyHides = true
	return r
}

// Start goes on where the partition was left, when it was read before: reading it from
// its start again would show for a while what has long been over, who had not hidden
// yet among it. Where that place is gone from the log, or is one of another topic, the
// users of the partition are here no more until they are read again, since tombstones
// were missed; who hid stays hidden till then.
func (r *Register) Start(_ context.Context, at schemas.Commit) (schemas.Kept, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	place, known := r.places[at.Partition]
	switch {
	case !known || place.Next < 0:
		place.Next = -1
	case place.Topic.Differs(at.TopicID) || place.Next < at.LogStart || place.Next > at.LogEnd:
		r.forget(at.Partition, at.Partitions)
		place.Next = -1
	}
	place.Topic = at.TopicID
	r.places[at.Partition] = place
	return place, nil
}

// forget takes the users of a partition out of the bitmap. Holds the lock.
func (r *Register) forget(partition, of int32) {
	var gone []uint64
	for all := r.here.Iterator(); all.HasNext(); {
		if id := all.Next(); schemas.PartitionOf(schemas.UserID(id), of) == partition {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		r.here.Remove(id)
	}
}

// Apply takes a batch of presence.status.
func (r *Register) Apply(_ context.Context, batch schemas.Batch[Seen]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range batch.Items {
		if s.Here && !r.onlyHides {
			r.here.Add(uint64(s.User))
		} else {
			r.here.Remove(uint64(s.User))
		}
		if s.Hidden != 0 {
			r.hidden[s.User] = s.Hidden
		} else {
			delete(r.hidden, s.User)
		}
	}
	place := r.places[batch.Partition]
	place.Next = batch.Next
	r.places[batch.Partition] = place
	return nil
}

// Filter appends to dst those of users who are here.
func (r *Register) Filter(dst, users []schemas.UserID) []schemas.UserID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, u := range users {
		if r.here.Contains(uint64(u)) {
			dst = append(dst, u)
		}
	}
	return dst
}

// Hides tells whether user hides now, by a transition after version.
func (r *Register) Hides(user schemas.UserID, version schemas.Version) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.hidden[user] > version
}

// Count is how many users are here.
func (r *Register) Count() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.here.GetCardinality()
}
