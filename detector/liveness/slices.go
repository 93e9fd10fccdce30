package liveness

import "github.com/stillhere/stillhere/schemas"

// Only the number of users bounds the effect of one record: a million may fall silent at one
// instant. It is published in slices. Between slices the checkpoint is that before the record, and
// a restart applies the record again. Up to where the record was published, that changes only
// reports: the statuses already have the new states of users.

// slice is how far the output of the record being applied has come.
type slice struct {
	pending bool
	from    int                   // where the slice begins in Output.Statuses
	size    int                   // length of the complete output at the slice's begin
	upTo    schemas.PublishedUpTo // what has been published
	resume  schemas.PublishedUpTo // what had been published before a restart

	// The content of a checkpoint before the record.
	before   clock
	stops    []schemas.BreakerStop
	disarmed bool
	bases    []schemas.EpochBase

	// Users of the record's rows whose statuses replace tombstones, or such that say nothing of their
	// presence: they keep the version and the name until the rows are applied.
	delayed []schemas.UserID
	rows    map[schemas.UserID]bool
}

func (s *slice) begin(out *Output) {
	s.pending = false
	s.from, s.size = len(out.Statuses), len(out.Transitions)+len(out.Statuses)
}

// outputFull reports whether the slice has to end.
func (m *Machine) outputFull() bool {
	return !m.replaying && len(m.out.Transitions)+len(m.out.Statuses)-m.slice.size >= m.Slice
}

// published reports whether the changes of a user in the first round of the instant being
// evaluated, and all before them, were published before a restart.
func (m *Machine) published(user schemas.UserID) bool {
	r, v := &m.slice.resume, &m.evaluation
	if r.At == 0 || v.at < 0 {
		return false
	}
	at := m.clock.wall(v.at)
	return at < r.At || at == r.At && v.round == 1 && v.done < len(v.batch) && user <= r.User
}

// wasPublished ends a step of u that had been published before a restart. Since when u is silent
// comes from its status: only the status has presumed devices.
func (m *Machine) wasPublished(u *user) {
	if s, ok := m.silences[u.id]; ok && u.silentFrom != 0 {
		u.silentFrom, u.releaseDelay, u.drained, u.last = s.from, s.held, s.drained, s.device
	}
	if u.state == schemas.Offline {
		if !u.hidden && u.flaps.waiting == nil {
			u.refresh()
		}
		u.silentFrom, u.releaseDelay, u.drained = 0, 0, false
	}
	u.dirty = false
}

// silence is since when a user is silent, and why.
type silence struct {
	from, held schemas.Millis
	drained    bool
	device     schemas.DeviceID
}

// cut ends a slice that another one follows.
func (m *Machine) cut(f *schemas.Frame) {
	s := &m.slice
	s.pending = true
	s.upTo.Version = m.version(0)
	if s.rows == nil {
		s.rows = map[schemas.UserID]bool{}
		for i := range f.Rows() {
			s.rows[f.User(i)] = true
		}
		if f.VisibilityUser != 0 {
			s.rows[f.VisibilityUser] = true
		}
		if f.ErasedUser != 0 {
			s.rows[f.ErasedUser] = true
		}
	}
	for i := s.from; i < len(m.out.Statuses); i++ {
		if status := &m.out.Statuses[i]; s.rows[status.User] && status.Nameless() {
			status.Bucket.At = s.before.now
			s.delayed = append(s.delayed, status.User)
		}
	}
	m.out = nil
}

// endSlices writes the delayed tombstones, and statuses that are little more.
func (m *Machine) endSlices() {
	m.slice.pending = false
	for _, id := range m.slice.delayed {
		if !m.replaying && m.needsNoStatus(id) {
			s := schemas.Status{User: id, State: schemas.Offline, Visibility: schemas.Everyone,
				Version: m.version(m.ordinals.of(id)) - 1, PublishedAt: m.changedAt(id)}
			m.addPrivacy(&s)
			m.out.Statuses = append(m.out.Statuses, s)
		}
	}
	m.slice.delayed = nil
}

// changedAt is when a user changed last, as far as it is remembered.
func (m *Machine) changedAt(id schemas.UserID) schemas.Millis {
	e := m.index.find(&m.store, m.index.hash(id), id)
	if e == none {
		return 0
	}
	u := m.load(e, &m.scratch)
	return max(u.since, u.flaps.publishedAt)
}

// needsNoStatus reports whether a restart needs to know nothing of a user but the privacy record: at
// most the byes, which the log has.
func (m *Machine) needsNoStatus(id schemas.UserID) bool {
	if _, hidden := m.hidden[id]; hidden || m.tenantOf(id) != 0 || m.tenants.lapsed[id] != (schemas.Lapsed{}) {
		return false
	}
	e := m.index.find(&m.store, m.index.hash(id), id)
	if e == none {
		return true
	}
	u := m.load(e, &m.scratch)
	return u.state == schemas.Offline && !u.hidden && u.flaps.bucket == schemas.Bucket{} && u.flaps.waiting == nil
}
