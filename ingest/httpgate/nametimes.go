package httpgate

import (
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
	silence time.Duration // ForgetAfter: a user who was not heard for so long is named
}

type nameTime struct {
	user         schemas.UserID
	named, heard int32 // seconds
}

// nameEntries is the size of the table: 16 MiB, of which the operating system gives what is used.
const nameEntries = 1 << 20

func (t *nameTimes) of(user schemas.UserID) *nameTime {
	if t.entries == nil {
		t.entries = make([]nameTime, nameEntries)
	}
	return &t.entries[user%nameEntries] // ids are hashes already
}

// due reports whether the name of user is due.
func (t *nameTimes) due(user schemas.UserID, now time.Duration) bool {
	e, at := t.of(user), seconds(now)
	return e.user != user || at-e.named >= seconds(coalesce.NamedEvery) || at-e.heard >= seconds(t.silence)
}

// sentRow is what nameTimes learns when a row is in the log.
type sentRow struct {
	user schemas.UserID
	how  uint8
}

const (
	sentPlain uint8 = iota
	sentNamed
	sentBye
)

// learn notes rows that are in the log. Of others nothing is known, so their names are written again.
func (t *nameTimes) learn(rows []sentRow, now time.Duration) {
	for _, row := range rows {
		switch e := t.of(row.user); {
		case row.how == sentNamed:
			*e = nameTime{row.user, seconds(now), seconds(now)}
		case e.user != row.user:
		case row.how == sentBye:
			*e = nameTime{}
		default:
			e.heard = seconds(now)
		}
	}
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }

// appendNames appends the names that are due to a frame of beats.
func (s *shipment) appendNames(
	value []byte, beats []schemas.Beat, names []schemas.Name, now time.Duration, named *nameTimes,
) []byte {
	for i := range beats {
		row := sentRow{beats[i].User, sentPlain}
		switch {
		case beats[i].Bye:
			row.how = sentBye
		case named.due(beats[i].User, now):
			row.how = sentNamed
			value = schemas.AppendNamedRow(value, i, names[i])
		}
		s.sent = append(s.sent, row)
	}
	return value
}
