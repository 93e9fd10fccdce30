package httpgate

import (
	"hash/maphash"
	"time"

	"github.com/stillhere/stillhere/internal/coalesce"
	"github.com/stillhere/stillhere/schemas"
)

// nameTimes says when the names of users were last written. A request has no session, so the first
// beat of one is that of a user who was not heard for a while. The table has a fixed size. Two users
// may have one entry; each then replaces the other, and their names are written more often than
// needed.
type nameTimes struct {
	entries []nameTime // by id
	// erasedAt is, by id, the second from which on names are sealed behind the last erasure; empty before the first.
	erasedAt []int32
	seed     maphash.Seed
	silence  coalesce.Silence // NameAfter: a user who was not heard for so long is named
}

// An entry is of a name, not of an id: of two names with one id each has to reach the detector, which finds
// the collision. Times are whole seconds.
type nameTime struct {
	key uint64 // of the name; 0: of nobody
	// When the last row with the name and the last row of the user were sealed, of those in the log.
	named, heard int32
}

// nameEntries is the size of the table: 16 MiB, of which the operating system gives what is used.
const nameEntries = 1 << 20

// erasureSlots is how many instants of erasures are kept, in 256 KiB. Users who share one are only named
// again if a name of theirs was under way.
const erasureSlots = 1 << 16

func (t *nameTimes) of(user schemas.UserID) *nameTime {
	if t.entries == nil {
		t.entries = make([]nameTime, nameEntries)
	}
	return &t.entries[uint64(user)%nameEntries]
}

// key is the hash of a name by which the table knows it; never 0.
func (t *nameTimes) key(name schemas.Name) uint64 {
	if t.seed == (maphash.Seed{}) {
		t.seed = maphash.MakeSeed()
	}
	return max(1, maphash.Comparable(t.seed, name))
}

// due reports whether the name with a key, of a user, is due.
func (t *nameTimes) due(user schemas.UserID, key uint64, now time.Duration) bool {
	e, at := t.of(user), seconds(now)
	return e.key != key || at-e.named >= seconds(coalesce.NamedEvery) || at-e.heard >= seconds(t.silence.At(now))
}

// sentRow is what nameTimes learns when a row is in the log.
type sentRow struct {
	user schemas.UserID
	key  uint64 // of the user's name
	how  uint8
}

const (
	sentPlain uint8 = iota
	sentNamed
	sentBye
)

// learn notes rows that are in the log, and when they were sealed. Of others nothing is known, so their
// names are written again.
func (t *nameTimes) learn(rows []sentRow, sealed time.Duration) {
	at := seconds(sealed)
	for _, row := range rows {
		switch e := t.of(row.user); {
		case row.how == sentBye:
			if e.key == row.key {
				*e = nameTime{}
			}
		case t.erasedAt != nil && at < t.erasedAt[uint64(row.user)%erasureSlots]: // it may come before an erasure in the log
		case row.how == sentNamed:
			*e = nameTime{row.key, at, at}
		case e.key == row.key:
			e.heard = at
		}
	}
}

// erased makes the name of a user due whose erasure was acknowledged before now. The instant is kept apart
// from the entry, which another user of the entry or a bye may replace.
func (t *nameTimes) erased(user schemas.UserID, now time.Duration) {
	if t.entries == nil {
		return // no name was sealed
	}
	if t.erasedAt == nil {
		t.erasedAt = make([]int32, erasureSlots)
	}
	*t.of(user) = nameTime{}
	t.erasedAt[uint64(user)%erasureSlots] = seconds(now) + 1
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }

// appendNames appends the names that are due to a frame of beats.
func (s *shipment) appendNames(
	value []byte, beats []schemas.Beat, names []schemas.Name, now time.Duration, named *nameTimes,
) []byte {
	for i := range beats {
		row := sentRow{beats[i].User, named.key(names[i]), sentPlain}
		switch {
		case beats[i].Bye:
			row.how = sentBye
		case named.due(row.user, row.key, now):
			row.how = sentNamed
			value = schemas.AppendNamedRow(value, i, names[i])
		}
		s.sent = append(s.sent, row)
	}
	return value
}
