package shown

import (
	"context"
	"fmt"
	"sync"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Entry is a user's record of presence.status.
type Entry struct {
	User    schemas.UserID
	Present bool
	Hidden  schemas.Version // the newest version of a hidden user, else 0
	Erased  schemas.Version // that of the user's erasure, while the status names it
}

// Checked decodes records of presence.status that check accepts; nil: all.
func Checked(check func(*schemas.Record, *schemas.Status) error) func(*schemas.Record) (Entry, error) {
	return func(r *schemas.Record) (Entry, error) { return decode(r, check) }
}

func decode(r *schemas.Record, check func(*schemas.Record, *schemas.Status) error) (Entry, error) {
	if schemas.IsRulesKey(r.Key) {
		return Entry{}, nil // of no user
	}
	user, err := schemas.UserOfKey(r.Key)
	if err != nil || r.Value == nil {
		return Entry{User: user}, err
	}
	status, err := schemas.DecodeStatus(r.Value)
	if err == nil && check != nil {
		if err = check(r, status); err == nil && status.User != user {
			err = schemas.Invalid("key", fmt.Sprintf("is of user %d, the status of %d", user, status.User))
		}
	}
	if err != nil {
		return Entry{}, err
	}
	entry := Entry{User: user, Present: status.State != schemas.Offline, Erased: status.ErasedVersion}
	if status.Visibility == schemas.Nobody {
		entry.Hidden = status.Version
	}
	return entry, nil
}

// Set holds the present users in a compressed bitmap, about 2 bytes a user where ids are dense and
// 10 where they are random, and the hidden and the erased users in maps. Any goroutine may use it.
type Set struct {
	hiddenOnly bool // present stays empty

	mu      sync.RWMutex // never held while waiting for anything
	present *roaring64.Bitmap
	hidden  map[schemas.UserID]schemas.Version
	erased  map[schemas.UserID]schemas.Version
	stored  map[int32]stream.StoredOffset // the next offset of each partition
}

// NewSet makes an empty Set.
func NewSet() *Set {
	return &Set{present: roaring64.New(), hidden: map[schemas.UserID]schemas.Version{},
		erased: map[schemas.UserID]schemas.Version{}, stored: map[int32]stream.StoredOffset{}}
}

// NewHiddenSet makes a Set that holds hidden users only; its Filter and Count are of no use.
func NewHiddenSet() *Set {
	r := NewSet()
	r.hiddenOnly = true
	return r
}

// Start returns the stored offset of a partition that was read before. Reading from the start again
// would show old states for a while, also of users who have since hidden. If the log does not have
// that offset any more, or the topic is another one, tombstones were missed: the users of the
// partition then count as offline until they are read again, and hidden users stay hidden, erased ones erased.
func (s *Set) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, known := s.stored[at.Partition]
	switch {
	case !known || stored.Next < 0:
		stored.Next = -1
	case stored.Topic.Differs(at.TopicID) || stored.Next < at.LogStart || stored.Next > at.LogEnd:
		s.removePartition(at.Partition, at.Partitions)
		stored.Next = -1
	}
	stored.Topic = at.TopicID
	s.stored[at.Partition] = stored
	return stored, nil
}

// removePartition removes the users of a partition from the bitmap. The caller holds the lock.
func (s *Set) removePartition(partition, of int32) {
	var removed []uint64
	for all := s.present.Iterator(); all.HasNext(); {
		if id := all.Next(); schemas.PartitionOf(schemas.UserID(id), of) == partition {
			removed = append(removed, id)
		}
	}
	for _, id := range removed {
		s.present.Remove(id)
	}
}

// Apply updates the set by a batch of presence.status.
func (s *Set) Apply(_ context.Context, batch stream.Batch[Entry]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch.Items {
		if e.Present && !s.hiddenOnly {
			s.present.Add(uint64(e.User))
		} else {
			s.present.Remove(uint64(e.User))
		}
		if e.Hidden != 0 {
			s.hidden[e.User] = e.Hidden
		} else {
			delete(s.hidden, e.User)
		}
		if e.Erased != 0 {
			s.erased[e.User] = e.Erased
		} else {
			delete(s.erased, e.User)
		}
	}
	stored := s.stored[batch.Partition]
	stored.Next = batch.Next
	s.stored[batch.Partition] = stored
	return nil
}

// Filter appends the present ones of users to dst.
func (s *Set) Filter(dst, users []schemas.UserID) []schemas.UserID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, u := range users {
		if s.present.Contains(uint64(u)) {
			dst = append(dst, u)
		}
	}
	return dst
}

// HiddenAfter reports whether user is hidden by a transition after version.
func (s *Set) HiddenAfter(user schemas.UserID, version schemas.Version) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hidden[user] > version
}

// ErasedAfter reports whether user was erased after version.
func (s *Set) ErasedAfter(user schemas.UserID, version schemas.Version) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.erased[user] > version
}

// Count returns the number of present users.
func (s *Set) Count() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.present.GetCardinality()
}
