package oracle

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// frame is a frame, and which of its rows do not count: those whose user_id is not the id of their
// name.
type frame struct {
	schemas.Frame
	forged map[int]bool
}

// read decodes a record. It returns false for one that counts for nothing.
func (l *Log) read(value []byte) (f frame, counts bool) {
	if f.Decode(value) != nil {
		return f, false
	}
	f.forged = map[int]bool{}
	var row schemas.NamedRow
	for names := f.Names(); names.Next(&row); {
		if !l.Users.Text() {
			return f, false
		}
		if !l.Users.Is(f.User(row.Row), row.User()) {
			f.forged[row.Row] = true
		}
	}
	if f.TenantPolicy != nil && !l.Users.Text() {
		return f, false
	}
	shown := f.VisibilityName
	return f, shown == schemas.Name{} || l.Users.Is(f.VisibilityUser, shown)
}

// kept is for how long the name of a user who is gone is known.
const kept = schemas.Millis(10 * time.Minute / time.Millisecond)

// takeNames stores the names of the users of this partition, and returns these. Of two names of a user
// the first stays.
func (w *world) takeNames(f *frame) (named []schemas.UserID) {
	for user, until := range w.left {
		if until <= w.now {
			delete(w.left, user)
			delete(w.names, user)
		}
	}
	take := func(user schemas.UserID, name schemas.Name) {
		if schemas.PartitionOf(user, w.log.Partitions) != w.log.Partition {
			return
		}
		named = append(named, user)
		if _, known := w.names[user]; !known {
			w.names[user] = name
			w.unsaved[user] = true
		}
		delete(w.left, user)
	}
	var row schemas.NamedRow
	for names := f.Names(); names.Next(&row); {
		if !f.forged[row.Row] {
			take(f.User(row.Row), schemas.Name{Tenant: string(row.Tenant), Text: string(row.Name)})
		}
	}
	if f.VisibilityName != (schemas.Name{}) {
		take(f.VisibilityUser, f.VisibilityName)
	}
	return named
}

// settleNames writes the statuses of users whose names are new, unless the record has caused one, and notes
// until when the names are known of users whose statuses say nothing of their presence.
func (w *world) settleNames() {
	for _, id := range w.ids() {
		if w.unsaved[id] {
			w.users[id].dirty = true
			w.write(w.users[id])
		}
	}
	w.unsaved = map[schemas.UserID]bool{}
	for user := range w.names {
		s, ok := w.statuses[user]
		switch {
		case ok && !s.Nameless():
			delete(w.left, user)
		case w.left[user] == 0:
			w.left[user] = w.now + kept
		}
	}
}
