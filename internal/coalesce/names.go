package coalesce

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// NamedEvery is after how long the name of a user is written again.
const NamedEvery = 5 * time.Minute

// NamedRow is the name of the user of one row of a batch.
type NamedRow struct {
	Row  int
	Name *schemas.Name
}

// slotName is what the user of a slot is called.
type slotName struct {
	name  *schemas.Name // nil: the user has no name
	known time.Duration // when the row that has the name in the log was sealed; unnamed: it may not be there
}

// erasures are the users who were erased, and when the queue learned it: names that were sealed until then
// may come before the erasure in the log.
type erasures struct {
	users map[schemas.UserID]time.Duration
	all   time.Duration // as if all users had been erased then
}

// Erased notes that a user was erased: each of the user's devices tells the name with its next beat, also
// if its connection is open and nothing has changed, because the detector has forgotten it. When more
// than MaxErased users were erased within NamedEvery, all devices do.
func (q *Queue) Erased(now time.Duration, user schemas.UserID) {
	if len(q.names) == 0 {
		return // no name was written
	}
	e := &q.erased
	_, known := e.users[user]
	switch {
	case !known && len(e.users) >= q.rules.MaxErased:
		e.users, e.all = nil, now
		return
	case e.users == nil:
		e.users = map[schemas.UserID]time.Duration{}
	}
	e.users[user] = now
}

// before reports whether a name that was sealed at an instant may come before an erasure of the user.
func (e *erasures) before(sealed time.Duration, user schemas.UserID) bool {
	if sealed <= e.all {
		return true
	}
	if len(e.users) == 0 {
		return false
	}
	at, found := e.users[user]
	return found && sealed <= at
}

// sweep forgets the users whose names have been repeated since.
func (e *erasures) sweep(now time.Duration) {
	for user, at := range e.users {
		if now-at >= NamedEvery {
			delete(e.users, user)
		}
	}
	if len(e.users) == 0 {
		e.users = nil
	}
}

// Silence is after how long a silence of a user the name is written again, because the detector may have
// forgotten the user. After a change to a longer time the shorter one counts on for NamedEvery: users whom
// the detector forgot before the change may not have returned yet, and partitions learn of it one after
// the other. From then on all names are repeated anyway. The zero value is no silence. All times are of
// one clock.
type Silence struct {
	after   time.Duration
	shorter time.Duration // counts until ...
	until   time.Duration
}

// Set changes the time to after.
func (s *Silence) Set(now, after time.Duration) {
	if was := s.At(now); was > 0 && was < after && after != s.after {
		s.shorter, s.until = was, now+NamedEvery
	}
	s.after = after
}

// At is the time that counts now.
func (s *Silence) At(now time.Duration) time.Duration {
	if now < s.until {
		return min(s.after, s.shorter)
	}
	return s.after
}

const unnamed = -NamedEvery

// name notes the name of a slot. afresh says that it has to be written again.
func (q *Queue) name(i int32, name *schemas.Name, afresh bool) {
	for len(q.names) < len(q.slots) {
		q.names = append(q.names, slotName{known: unnamed})
	}
	n := &q.names[i]
	if n.name == nil || *n.name != *name {
		copied := *name // so that callers need not allocate it
		n.name, afresh = &copied, true
	}
	if afresh {
		n.known = unnamed
	}
}

// unname forgets the name of a slot.
func (q *Queue) unname(i int32) {
	if int(i) < len(q.names) {
		q.names[i] = slotName{known: unnamed}
	}
}

// appendName adds the name of a slot to the last row of b, if it is due.
func (q *Queue) appendName(b *Batch, i int32, now time.Duration) {
	if int(i) >= len(q.names) {
		return
	}
	n := &q.names[i]
	if n.name != nil && (q.rules.NameAlways || now-n.known >= NamedEvery || q.erased.before(n.known, q.slots[i].user)) {
		b.Names = append(b.Names, NamedRow{Row: len(b.Beats) - 1, Name: n.name})
	}
}

// settleNames notes which names are in the log. After a batch that is not, all its users are named
// again.
func (q *Queue) settleNames(b *Batch, written bool) {
	if written {
		for _, row := range b.Names {
			if i := b.slots[row.Row]; q.names[i].name != nil {
				q.names[i].known = b.sealed
			}
		}
		return
	}
	for _, i := range b.slots {
		if int(i) < len(q.names) {
			q.names[i].known = unnamed
		}
	}
}
