package pgstore

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// logArguments are the parameters of append_carefully.sql.
func logArguments(changes []*schemas.Transition) []any {
	var (
		n                            = len(changes)
		users, versions              = make([]int64, n), make([]int64, n)
		leftOut                      = make([]int64, n)
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
		events[i], policies[i], leftOut[i] = t.EventID().String(), t.Policy, int64(t.LeftOut)
	}
	return []any{users, at, versions, devices, seen, active, from, to, causes, visibility, kinds, events, policies, leftOut}
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
