package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Rows of connections, and what holds a device.

// outdated reports whether a beat at b that would make the report next of before, nil for none, changes nothing. It is
// bare if its own row has no connection.
func (u *user) outdated(next, before *report, b schemas.Millis, bare bool) bool {
	for _, known := range u.byes {
		same := known.connection == next.connection
		if known.device == next.device && known.life == next.life &&
			(known.time > b && (bare || known.connection == 0) || same && next.held) {
			return true
		}
	}
	switch {
	case before == nil:
		return false
	case !next.held || before.held:
		return before.seen > b
	}
	return before.connection == next.connection && before.seen >= b
}

// disconnect applies a row of a connection that was closed or lost at b; without one, of all that were open. It returns
// when that was, and whether the user is to be judged, which is as before when a connection is lost.
func (w *world) disconnect(u *user, row schemas.Beat, b schemas.Millis, through *life,
	over bool) (at schemas.Millis, judged bool) {
	newest := bye{row.Device, through, row.Connection, b}
	of := w.about(u, row, b, through)
	if len(of) == 0 {
		if !over && row.Connection != 0 {
			w.remember(u, newest)
		}
		return b, false
	}
	b = max(b, w.wall(w.x-w.of(u).present+1)) // before that it would be over
	newest.time = b
	for _, r := range of {
		if r.held {
			w.unhold(u, r, b)
		}
		newest.time = max(newest.time, r.seen)
	}
	switch {
	case row.Bye:
		return newest.time, w.bye(u, of, newest)
	case row.Connection != 0:
		w.remember(u, newest)
	}
	return b, false
}

// about are the reports of the connection that a row ends; without one, of all that are open and not newer. Rows of
// numbered frames are in their order.
func (w *world) about(u *user, row schemas.Beat, b schemas.Millis, through *life) []*report {
	return slices.DeleteFunc(u.of(row.Device), func(r *report) bool {
		about := r.connection == row.Connection
		if row.Connection == 0 {
			about = r.held && (r.seen <= b || w.ordered && r.life == through)
		}
		return !about || !mayEnd(through, r.life)
	})
}

// loseUnnamed ends the replacement of the connections of l: those that were not named since it began are lost.
func (w *world) loseUnnamed(l *life) {
	for _, u := range w.users {
		for _, r := range u.reports {
			if r.life == l && r.held && r.seen < l.begun {
				w.unhold(u, r, w.now)
			}
		}
	}
	l.begun = 0
}

// unhold ends the holding of a held report at b. The person touched the device as long ago as before.
func (w *world) unhold(u *user, r *report, b schemas.Millis) {
	seen := max(r.seen, b)
	switch {
	case r.inUse():
	case r.touched() == 0:
		r.idle = schemas.MaxIdle
	default:
		r.idle = schemas.Millis(w.presence(seen) - w.presence(r.told-r.idle))
	}
	r.seen, r.told, r.held = seen, seen, false
	u.lastSeen = max(u.lastSeen, seen)
}
