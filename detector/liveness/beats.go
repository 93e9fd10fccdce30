package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// block is the scratch of applyBeats.
type block struct {
	entries    [blockRows]uint32
	missed     [blockRows]uint8  // rows whose users have to be searched for
	hashes     [blockRows]uint64 // of those
	found      [blockRows]uint32 // their entries
	many       [blockRows]*roomy // users of those who do not fit in them
	follow     uint32            // the entry after that of the row before
	prefetched uint32
}

// maxCaused is how many transitions of one user a record may cause before its rows are ignored: the
// ordinals of versions end at 4,095, and no record may stop a partition.
const maxCaused = 4000

// maxWrong is how many wrong guesses at the order of a block's users end the guessing: each guess
// costs memory traffic.
const maxWrong = 4

// applyBeats applies the rows in blocks. Users are looked up a block at a time, so that the loads
// for one row need not wait for those of the row before.
func (m *Machine) applyBeats(f *schemas.Frame, life uint16, holds bool) {
	m.counts.Beats += uint64(f.Rows())
	now := m.stampOf(m.clock.now)
	rows := f.Beats()
	late := schemas.Millis(0)
	m.held, m.ordered, m.resumed = 0, f.Sequence != 0, m.stampOf(m.gateways.lives[life].resumed)
	switch l := &m.gateways.lives[life]; {
	case l.end == forwarded:
		m.held = m.reconnectWindow
	case l.lostAt != 0:
		m.held = never / 2 // by a plan that is still to come
	}
	if f.ForwardedAt != 0 {
		late = max(0, m.clock.now-f.ForwardedAt)
	}
	var beat schemas.Beat
	for first := 0; first < f.Rows(); first += blockRows {
		n := min(blockRows, f.Rows()-first)
		m.lookUp(f, first, n)
		for i := range n {
			rows.Next(&beat)
			beat.Age += late
			if !holds {
				if beat.Connection = 0; beat.Lost {
					continue
				}
			}
			if m.ordinals.used > 0 && m.ordinals.of(beat.User) >= maxCaused {
				continue
			}
			if e := m.block.entries[i]; e != none {
				if m.capture != nil {
					m.touch(e)
				}
				if h := m.store.hot(e); m.repeats(m.timingOf(e, h), h, &beat, now, life) {
					continue
				}
			}
			m.applyBeat(&beat, m.block.entries[i], now, life)
		}
	}
}

// lookUp guesses the entries of n rows from first on, and loads them.
//
// Devices beat at regular intervals, so frames of a gateway tend to name users in the order in
// which they first came, which is that of their entries. The entry after that of the row before is
// tried first. For the other users, all first slots are loaded, then their entries.
func (m *Machine) lookUp(f *schemas.Frame, first, n int) {
	b := &m.block
	var loaded uint32
	missed, wrong := 0, 0
	end := m.store.end()
	for i := range n {
		id := f.User(first + i)
		if wrong < maxWrong && b.follow < end {
			if m.store.hot(b.follow).user == id {
				b.entries[i] = b.follow
				b.follow++
				continue
			}
			b.follow++
			wrong++
		}
		b.missed[missed], b.hashes[missed] = uint8(i), uint64(id)
		missed++
	}
	// Short loops: the fewer instructions between two loads, the more loads the processor overlaps.
	hashes := b.hashes[:missed]
	for j, id := range hashes {
		hashes[j] = m.index.hash(schemas.UserID(id))
	}
	for _, h := range hashes {
		loaded += m.index.prefetch(h)
	}
	for j, h := range hashes {
		b.found[j] = m.index.guess(h)
	}
	found := b.found[:missed]
	for _, e := range found {
		if e != none { // an entry may lie in two lines of the cache
			h := m.store.hot(e)
			loaded += uint32(h.user) + uint32(h.flags)
		}
	}
	for j, e := range found {
		b.entries[b.missed[j]] = e
	}
	if b.entries[n-1] != none {
		b.follow = b.entries[n-1] + 1
	}
	many := b.many[:0]
	for _, e := range b.entries[:n] {
		if e != none && m.store.hot(e).flags&flagMany != 0 {
			many = append(many, *m.many.at(m.store.hot(e).active))
		}
	}
	for _, u := range many { // one load for each of the three cache lines of a user
		loaded += uint32(u.id) + u.flaps.leftOut + uint32(u.room[0].device)
	}
	b.prefetched = loaded
}

// repeats applies a beat that can change nothing but times, and reports whether it was one: a beat
// of the user's only device, which is present, through the same gateway, in time, and without a
// change of whether the person is active.
func (m *Machine) repeats(t *timing, h *hot, beat *schemas.Beat, now stamp, life uint16) bool {
	want := flagPresent | flags(beat.Kind)<<shiftKind | flags(1)<<(beat.Kind-1)<<shiftKinds
	if h.user != beat.User || h.flags&t.plain != want&t.plain || h.device != beat.Device || h.life != life ||
		beat.Bye || beat.Lost || beat.Connection != 0 {
		return h.flags&flagMany != 0 && h.user == beat.User && m.repeatsOneOf(m.stored(h), beat, life)
	}
	// Log time since the newest report; presence time is never more.
	since := presence(now-h.seen) - presence(beat.Age)
	if since < 0 || since >= t.presentFor || presence(beat.Age) >= t.presentFor || h.seen < m.resumed { // it may be over
		return false
	}
	b := now - stamp(beat.Age)
	idle := presence(beat.Idle)
	switch {
	case b < atBase+stamp(idle):
		return false // the last touch lies before the base of the stamps
	case h.flags.state() == schemas.Away:
		if idle < t.idleAfter || t.idleAfter == 0 {
			return false
		}
	case t.idleAfter == 0:
	case idle+t.presentFor+m.held > t.idleAfter || presence(now-h.active)-presence(beat.Age) >= t.idleAfter:
		// Close to the limit of idleness: the timer may have to come forward.
		return false
	}
	h.seen, h.active = b, b-stamp(beat.Idle)
	return true
}

// repeatsOneOf is repeats for a user who does not fit in an entry, and has several reports. It does what report and
// save do where nothing changes but the times of one report. Users who may be unheard are left to them.
func (m *Machine) repeatsOneOf(u *user, beat *schemas.Beat, life uint16) bool {
	i := u.only(beat.Device)
	if len(u.reports) < 2 || i < 0 || beat.Bye || beat.Lost || beat.Connection != 0 || u.reports[i].held ||
		m.gateways.lives[life].lostAt != 0 || u.unsureSince != 0 {
		return false
	}
	m.use(u.tenant)
	b, before := m.clock.now-beat.Age, u.reports[i]
	after := before
	after.seen, after.active = b, b-beat.Idle
	at := m.clock.at(b)
	switch {
	case before.bye || before.kind != beat.Kind || before.life != life || b < before.seen || at+m.presentFor <= m.evaluated,
		before.seen < m.gateways.lives[life].resumed,    // the timer may have to come forward
		m.activeUntil(&after) < m.activeUntil(&before),  // the timer may have to come forward
		u.state == schemas.Online && m.idlesAt(u) <= at, // by a policy that came after the beat
		(u.state == schemas.Away || m.announce && u.kinds.Active()&(1<<beat.Kind) == 0) &&
			m.activeUntil(&after) > m.evaluated,
		u.state == schemas.Offline, m.announce && u.otherKinds(),
		m.nextBefore(u) <= at:
		return false
	}
	u.reports = append(slices.Delete(u.reports, i, i+1), after)
	u.lastSeen = max(u.lastSeen, b)
	m.refill(u)
	return true
}

// applyBeat applies a beat or bye by the rules. guessed is the entry for which repeats was false;
// it may be that of another user.
func (m *Machine) applyBeat(beat *schemas.Beat, guessed uint32, now stamp, life uint16) {
	h := m.index.hash(beat.User)
	e := m.index.find(&m.store, h, beat.User)
	u := &m.scratch
	if e != none && m.capture != nil {
		m.touch(e)
	}
	switch {
	case e != none && e != guessed && m.repeats(m.timingOf(e, m.store.hot(e)), m.store.hot(e), beat, now, life):
		return
	case e != none:
		u = m.load(e, u)
	case m.foreign(beat.User):
		m.out.Misrouted++
		return
	default:
		e = m.enter(beat.User, u)
	}
	m.report(e, u, beat, m.clock.now-beat.Age, life)
	m.save(e, u, true)
}
