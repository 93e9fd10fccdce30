package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// denied are the viewers whom a user denies, ascending. It is not changed in place.
type denied struct {
	viewers []schemas.UserID
	partial bool // a lossy restart has lost those from before
}

// setDenied applies what a record says of whom a user denies. It is published at once, as a transition of its own from
// what was published last: changes that wait go on waiting, and other viewers need not get it.
func (m *Machine) setDenied(u *user, d schemas.Denies) {
	m.lookAhead(u, m.clock.presence())
	before, audience := valueOf(u.over).Audience, m.version(m.ordinals.of(u.id))
	list, known := m.denied[u.id]
	list.partial = list.partial || !known && before != 0
	d = d.Against(list.viewers, list.partial)
	list.viewers = slices.Clip(d.Apply(list.viewers))
	if len(list.viewers) > schemas.MaxDenied {
		m.counts.DeniesRefused++
		d = ""
	}
	if d == "" {
		m.settleStatus(u)
		return
	}
	m.denied[u.id] = list
	now := u.judged()
	now.over = withAudience(u.over, audience)
	m.take(u, now)
	if w := u.flaps.waiting; w != nil {
		w.over = withAudience(w.over, audience)
	}
	m.noteTimes(u)
	seen, at := u.published(), max(m.clock.now, m.earliest(u))
	t := m.transition(u, &seen, at, schemas.AudienceSet)
	t.From, t.Denies, t.AudienceBefore = t.To, d, before
	m.emit(&t)
	u.flaps.publishedAt = at
	u.dirty = true
	m.settleStatus(u)
}

// withAudience is over with the version of the list of denied viewers.
func withAudience(over *schemas.Override, audience schemas.Version) *schemas.Override {
	with := valueOf(over)
	with.Audience = audience
	return orNone(with)
}
