package oracle

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// frame is a frame, and which of its rows do not count: those whose name is not that of their user.
type frame struct {
	schemas.Frame
	forged map[int]bool
	// called is the user whom the frame shows, hides or erases under a name; 0: none.
	called schemas.UserID
	name   schemas.Name
}

// A gateway has started in the ten years before its frame, by the log time, or by a wrong clock at most a day after.
const (
	longestRun   = schemas.Millis(10 * 365 * 24 * time.Hour / time.Millisecond)
	clocksDiffer = schemas.Millis(24 * time.Hour / time.Millisecond)
)

// read decodes a record at which the log time is now. It returns false for one that counts for nothing.
func (l *Log) read(r *schemas.Record, now schemas.Millis) (f frame, counts bool) {
	if f.Decode(r.Value) != nil {
		return f, false
	}
	if len(f.Gateway) > 0 && f.GatewayEpoch != 0 && (now-f.GatewayEpoch > longestRun || f.GatewayEpoch-now > clocksDiffer) {
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
	switch none := (schemas.Name{}); {
	case f.VisibilityName != none:
		f.called, f.name = f.VisibilityUser, f.VisibilityName
	case f.ErasedName != none:
		f.called, f.name = f.ErasedUser, f.ErasedName
	}
	return f, f.called == 0 || l.Users.Is(f.called, f.name)
}

// forgeNameless makes the rows without a name forged whose user has another one that is: they are of the same name.
func (f *frame) forgeNameless() {
	called := map[int]bool{}
	var row schemas.NamedRow
	for names := f.Names(); names.Next(&row); {
		called[row.Row] = true
	}
	var forged []schemas.UserID
	for i := range f.forged {
		forged = append(forged, f.User(i))
	}
	for i := range f.Rows() {
		if !called[i] && slices.Contains(forged, f.User(i)) {
			f.forged[i] = true
		}
	}
}

// kept is for how long the name of a user who is gone is known.
const kept = schemas.Millis(10 * time.Minute / time.Millisecond)

// knows reports whether a user of this partition has another name than this one.
func (w *world) knows(user schemas.UserID, name schemas.Name) (otherwise bool) {
	known, ok := w.names[user]
	return ok && known != name
}

// refuses reports whether the frame counts for nothing, because it is about a user who has another name. The log
// time at it is now.
func (w *world) refuses(f *frame, now schemas.Millis) bool {
	for user, until := range w.left {
		if until <= now {
			delete(w.left, user)
			delete(w.names, user)
			delete(w.judged, user)
			delete(w.judgedAt, user)
		}
	}
	return f.called != 0 && w.knows(f.called, f.name)
}

// takeNames stores the names of the users of this partition, and returns these. Of two names of a user
// the first stays, and rows with the other do not count.
func (w *world) takeNames(f *frame) (named []schemas.UserID) {
	take := func(user schemas.UserID, name schemas.Name) {
		named = append(named, user)
		if _, known := w.names[user]; !known {
			w.names[user] = name
			w.unsaved[user] = true
		}
		delete(w.left, user)
	}
	mine := func(user schemas.UserID) bool {
		return schemas.PartitionOf(user, w.log.Partitions) == w.log.Partition
	}
	var row schemas.NamedRow
	for names := f.Names(); names.Next(&row); {
		user, name := f.User(row.Row), schemas.Name{Tenant: string(row.Tenant), Text: string(row.Name)}
		switch {
		case f.forged[row.Row] || !mine(user):
		case w.knows(user, name):
			f.forged[row.Row] = true
		default:
			take(user, name)
		}
	}
	if f.VisibilityUser != 0 && f.called != 0 && mine(f.called) {
		take(f.called, f.name)
	}
	f.forgeNameless()
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
		case ok && !s.Absent():
			delete(w.left, user)
		case w.left[user] == 0:
			w.left[user] = w.now + kept
		}
	}
}
