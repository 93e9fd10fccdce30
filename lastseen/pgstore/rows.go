package pgstore

import (
	"time"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// logColumns are the columns of status_changes in the order of logRow.
var logColumns = []string{
	"user_id", "at", "version", "device_id", "last_seen_at", "last_active_at", "from_state", "to_state", "cause", "visibility",
	"device_kinds", "event_id", "policy_id",
}

// logRows hands changes to COPY.
type logRows struct {
	changes []*schemas.Transition
	next    int
	row     [13]any
}

func (r *logRows) Next() bool { r.next++; return r.next <= len(r.changes) }
func (r *logRows) Err() error { return nil }

func (r *logRows) Values() ([]any, error) {
	t := r.changes[r.next-1]
	r.row = [13]any{
		int64(t.User), t.At.Time(), int64(t.Version), device(t.Device), timeOf(t.LastSeen), timeOf(t.LastActive),
		schemas.StateWord(t.From), schemas.StateWord(t.To), schemas.CauseWord(t.Cause), schemas.VisibilityWord(t.Visibility),
		int16(t.Kinds), t.EventID().String(), t.Policy,
	}
	return r.row[:], nil
}

// logArguments are the columns of logRows as arrays.
func logArguments(changes []*schemas.Transition) []any {
	var (
		n                            = len(changes)
		users, versions              = make([]int64, n), make([]int64, n)
		at                           = make([]time.Time, n)
		devices                      = make([]*int64, n)
		seen, active                 = make([]*time.Time, n), make([]*time.Time, n)
		from, to, causes, visibility = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		kinds                        = make([]int16, n)
		events, policies             = make([]string, n), make([]string, n)
	)
	for i, t := range changes {
		users[i], versions[i], at[i], devices[i] = int64(t.User), int64(t.Version), t.At.Time(), device(t.Device)
		seen[i], active[i] = timeOf(t.LastSeen), timeOf(t.LastActive)
		from[i], to[i], causes[i] = schemas.StateWord(t.From), schemas.StateWord(t.To), schemas.CauseWord(t.Cause)
		visibility[i], kinds[i] = schemas.VisibilityWord(t.Visibility), int16(t.Kinds)
		events[i], policies[i] = t.EventID().String(), t.Policy
	}
	return []any{users, at, versions, devices, seen, active, from, to, causes, visibility, kinds, events, policies}
}

// usersArguments are the arrays of upsert_users.sql.
func usersArguments(updates []store.Update) []any {
	var (
		n                       = len(updates)
		users, versions, hidden = make([]int64, n), make([]int64, n), make([]int64, n)
		states, visibility      = make([]string, n), make([]string, n)
		since                   = make([]time.Time, n)
		seen, active            = make([]*time.Time, n), make([]*time.Time, n)
		kinds                   = make([]int16, n)
		sinceKnown, hiddenKnown = make([]bool, n), make([]bool, n)
	)
	for i, u := range updates {
		users[i], versions[i], hidden[i] = int64(u.User), int64(u.Version), int64(u.Hidden)
		states[i], visibility[i] = schemas.StateWord(u.State), schemas.VisibilityWord(u.Visibility)
		since[i], seen[i], active[i] = u.Since.Time(), timeOf(u.LastSeen), timeOf(u.LastActive)
		kinds[i], sinceKnown[i], hiddenKnown[i] = int16(u.Kinds), u.SinceKnown, u.HiddenKnown
	}
	return []any{users, states, since, seen, active, kinds, visibility, versions, hidden, sinceKnown, hiddenKnown}
}

// timeOf is NULL for never.
func timeOf(m schemas.Millis) *time.Time {
	if m == 0 {
		return nil
	}
	t := m.Time()
	return &t
}

func millisOf(t *time.Time) schemas.Millis {
	if t == nil {
		return 0
	}
	return schemas.MillisOf(*t)
}

// device is NULL when no device caused the change.
func device(id schemas.DeviceID) *int64 {
	if id == 0 {
		return nil
	}
	n := int64(id)
	return &n
}
