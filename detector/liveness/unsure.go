package liveness

import (
	byHeap "container/heap"

	"github.com/stillhere/stillhere/schemas"
)

// A user is *unheard* while only devices in the cohorts of lost gateways are present: nobody knows
// whether the person is still there. Such a user gets one status with UnsureSince, at the pace of
// the release queue, and one without it when that ends; see ../DESIGN.md.

// unsure are the unheard users whose status does not say so yet, and when the next one is due.
// Everything here but free follows from the users.
type unsure struct {
	// waiting has the newest report of each when the user was added: a user with another one by now is in it
	// again, or not unheard.
	waiting usersAt
	free    int64 // presence time from which the next status may be written, microseconds
}

// userAt is a user and an instant.
type userAt struct {
	at   schemas.Millis
	user schemas.UserID
}

// usersAt is a heap: the earliest is first, of several the user with the smallest id.
type usersAt []userAt

func (h usersAt) Len() int { return len(h) }
func (h usersAt) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].user < h[j].user
}
func (h usersAt) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *usersAt) Push(x any) {
	if u, ok := x.(userAt); ok {
		*h = append(*h, u)
	}
}

func (h *usersAt) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// unheard is the newest report of a visible user who is published as present and unheard; else 0.
func (u *user) unheard() (newest schemas.Millis) {
	state, hidden := u.state, u.hidden
	if w := u.flaps.waiting; w != nil {
		state, hidden = w.state, hidden || w.hidden
	}
	if hidden || state == schemas.Offline {
		return 0
	}
	for i := range u.reports {
		r := &u.reports[i]
		switch r.phase {
		case present:
			return 0
		case inCohort, queued:
			newest = max(newest, r.seen)
		}
	}
	return newest
}

// awaitUnsure makes an unheard user wait for a status that says so.
func (m *Machine) awaitUnsure(u *user) {
	newest := schemas.Millis(0)
	if u.unsureSince == 0 {
		newest = u.unheard()
	}
	if newest != 0 && newest != u.awaits {
		byHeap.Push(&m.unsure.waiting, userAt{newest, u.id})
	}
	u.awaits = newest
}

// endUnsure notes that a user is unheard no more.
func (m *Machine) endUnsure(u *user) {
	if u.unsureSince != 0 && u.unheard() == 0 {
		u.unsureSince, u.unsureEnded, u.dirty = 0, true, true
	}
}

// nextUnsure is when the next status of an unheard user is due.
func (m *Machine) nextUnsure() presence {
	if len(m.unsure.waiting) == 0 {
		return never
	}
	return max(presence((m.unsure.free+999)/1000), m.evaluation.from)
}

// writeUnsure writes the statuses that are due by the presence instant at.
func (m *Machine) writeUnsure(at presence) {
	q := &m.unsure
	for len(q.waiting) > 0 && at >= m.evaluation.from && q.free <= int64(at)*1000 {
		first, _ := byHeap.Pop(&q.waiting).(userAt)
		e := m.index.find(&m.store, m.index.hash(first.user), first.user)
		if e == none {
			continue
		}
		u := m.load(e, &m.scratch)
		if u.awaits != first.at || u.unheard() == 0 {
			continue
		}
		u.unsureSince, u.awaits = m.unsureFrom(u), 0
		q.free = int64(at)*1000 + m.cohortStep
		m.emitStatus(u)
		m.encode(e, u)
	}
}

// unsureFrom is since when no gateway can report u: the loss of the gateway, or a later report that
// came through it, but no instant at which u was hidden.
func (m *Machine) unsureFrom(u *user) (from schemas.Millis) {
	from = m.shownAt(u.id)
	for i := range u.reports {
		if r := &u.reports[i]; r.live() {
			from = max(from, r.seen, m.gateways.lives[r.life].lostAt)
		}
	}
	return from
}
