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
	entries []nameTime
	seed    maphash.Seed
	silence time.Duration // NameAfter: a user who was not heard for so long is named
}

// Entries are of names, not of ids: of two names with one id each has to reach the detector, which finds
// the collision.
type nameTime struct {
	key          uint64
	named, heard int32 // seconds
}

// nameEntries is the size of the table: 16 MiB, of which the operating system gives what is used.
const nameEntries = 1 << 20

func (t *nameTimes) of(key uint64) *nameTime {
	if t.entries == nil {
		t.entries = make([]nameTime, nameEntries)
	}
	return &t.entries[key%nameEntries]
}

// key is the hash of a name by which the table knows it.
func (t *nameTimes) key(name schemas.Name) uint64 {
	if t.seed == (maphash.Seed{}) {
		t.seed = maphash.MakeSeed()
	}
	return maphash.Comparable(t.seed, name)
}

// due reports whether the name with a key is due.
func (t *nameTimes) due(key uint64, now time.Duration) bool {
	e, at := t.of(key), seconds(now)
	return e.key != key || at-e.named >= seconds(coalesce.NamedEvery) || at-e.heard >= seconds(t.silence)
}

// sentRow is what nameTimes learns when a row is in the log.
type sentRow struct {
	key uint64 // of the user's name
	how uint8
}

const (
	sentPlain uint8 = iota
	sentNamed
	sentBye
)

// learn notes rows that are in the log. Of others nothing is known, so their names are written again.
func (t *nameTimes) learn(rows []sentRow, now time.Duration) {
	for _, row := range rows {
		switch e := t.of(row.key); {
		case row.how == sentNamed:
			*e = nameTime{row.key, seconds(now), seconds(now)}
		case e.key != row.key:
		case row.how == sentBye:
			*e = nameTime{}
		default:
			e.heard = seconds(now)
		}
	}
}

// forget makes the name with a key due.
func (t *nameTimes) forget(key uint64) {
	if e := t.of(key); e.key == key {
		*e = nameTime{}
	}
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }

// appendNames appends the names that are due to a frame of beats.
func (s *shipment) appendNames(
	value []byte, beats []schemas.Beat, names []schemas.Name, now time.Duration, named *nameTimes,
) []byte {
	for i := range beats {
		row := sentRow{named.key(names[i]), sentPlain}
		switch {
		case beats[i].Bye:
			row.how = sentBye
		case named.due(row.key, now):
			row.how = sentNamed
			value = schemas.AppendNamedRow(value, i, names[i])
		}
		s.sent = append(s.sent, row)
	}
	return value
}
