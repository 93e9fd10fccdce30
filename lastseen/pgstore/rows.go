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
		users[i], versions[i], at[i], devices[i] = int64(t.User), int64(t.Version), t.At.Time(), orNull(int64(t.Device))
		seen[i], active[i] = timeOrNull(t.LastSeen), timeOrNull(t.LastActive)
		from[i], to[i], causes[i] = schemas.StateWord(t.From), schemas.StateWord(t.To), schemas.CauseWord(t.Cause)
		visibility[i], kinds[i] = schemas.VisibilityWord(t.Visibility), int16(t.Kinds)
		events[i], policies[i], leftOut[i] = t.EventID().String(), t.Policy, int64(t.LeftOut)
	}
	return []any{users, at, versions, devices, seen, active, from, to, causes, visibility, kinds, events, policies, leftOut}
}

// orNull is NULL for the zero value.
func orNull[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func timeOrNull(m schemas.Millis) *time.Time {
	if m == 0 {
		return nil
	}
	return new(m.Time())
}

func millisOf(t *time.Time) schemas.Millis {
	if t == nil {
		return 0
	}
	return schemas.MillisOf(*t)
}
