package liveness

import "github.com/stillhere/stillhere/schemas"

// What one record leads to has no bound but the number of users: a million may fall
// silent at one instant. It is put out in slices. In between the checkpoint is that
// before the record: after a restart the record is applied again. Up to where it was
// published, it moves reports only, for users are by their statuses what they became.

// slice is how far the output of the record being applied has come.
type slice struct {
	pending bool
	from    int                   // where the slice begins in Output.Statuses ...
	size    int                   // ... and the length of the whole output there
	upTo    schemas.PublishedUpTo // what has been put out
	resume  schemas.PublishedUpTo // what had been before a restart

	// What a checkpoint before the record says.
	before   clock
	stops    []schemas.BreakerStop
	disarmed bool
	bases    []schemas.EpochBase

	// Users of the record's rows whose statuses stand in place of tombstones: they keep
	// the version until the rows are applied.
	kept []schemas.UserID
	rows map[schemas.UserID]bool
}

func (s *slice) begin(out *Output) {
	s.pending = false
	s.from, s.size = len(out.Statuses), len(out.Transitions)+len(out.Statuses)
}

// outputFull tells whether the slice has to end.
func (m *Machine) outputFull() bool {
	return !m.replaying && len(m.out.Transitions)+len(m.out.Statuses)-m.slice.size >= m.Slice
}

// published tells whether all that the first round of the instant being evaluated leads to
// for a user, and all before it, was published before a restart.
func (m *Machine) published(user schemas.UserID) bool {
	r, v := &m.slice.resume, &m.evaluation
	if r.At == 0 || v.at < 0 {
		return false
	}
	at := m.clock.wall(v.at)
	return at < r.At || at == r.At && v.round == 1 && v.done < len(v.batch) && user <= r.User
}

// wasPublished ends a step of u that had been published before a restart. Since when u is
// silent its status tells: devices that were presumed are in there only.
func (m *Machine) wasPublished(u *user) {
	if told, ok := m.silences[u.id]; ok && u.silentFrom != 0 {
		u.silentFrom, u.held, u.drained, u.last = told.from, told.held, told.drained, told.device
	}
	if u.state == schemas.Offline {
		if !u.hidden && u.flaps.waiting == nil {
			u.refresh()
		}
		u.silentFrom, u.held, u.drained = 0, 0, false
	}
	u.dirty = false
}

// silence is since when a user is silent, and why.
type silence struct {
	from, held schemas.Millis
	drained    bool
	device     schemas.DeviceID
}

// cut ends a slice after which there will be another.
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
	}
	for i := s.from; i < len(m.out.Statuses); i++ {
		if status := &m.out.Statuses[i]; s.rows[status.User] && status.Tombstone() {
			status.Bucket.At = s.before.now
			s.kept = append(s.kept, status.User)
		}
	}
	m.out = nil
}

// endSlices writes the tombstones that were kept back.
func (m *Machine) endSlices() {
	m.slice.pending = false
	for _, id := range m.slice.kept {
		_, hides := m.hidden[id]
		if m.index.find(&m.store, m.index.hash(id), id) == none && !hides && !m.replaying {
			m.out.Statuses = append(m.out.Statuses, schemas.Status{User: id, State: schemas.Offline, Visibility: schemas.Everyone,
				Version: m.version(m.ordinals.of(id)) - 1})
		}
	}
	m.slice.kept = nil
}
