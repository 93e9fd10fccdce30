package liveness

import "github.com/stillhere/stillhere/schemas"

const (
	// showMatters is how long after a show a report can still have a time before it.
	showMatters = schemas.MaxIdle + schemas.MaxAge
	// privacyEvery is the log time between two searches for privacy records that no longer matter.
	privacyEvery = schemas.Millis(10 * 60 * 1000)
	// privacyPerTick bounds how many of these one tick forgets.
	privacyPerTick = 1000
)

// privacyRecord says what of a user may not be disclosed any more: what was before the last show, and
// before the erasure. It is kept whatever the presence, also of an unknown user. Few users have one.
type privacyRecord struct {
	// shownAt is at of the show of a user who has hidden, until the next hide. No change of the user
	// has an earlier time: what happened while the user hid stays hidden.
	shownAt schemas.Millis
	// erased is the version of the user's erasure, until withheld: whoever sends changes leaves out
	// older ones.
	erased   schemas.Version
	withheld schemas.Millis
}

// ErasedVersion is the version of the user's erasure; 0: the user was not erased, or the status need not say it any more.
func (m *Machine) ErasedVersion(id schemas.UserID) schemas.Version { return m.privacy[id].erased }

// shownAt is when the user showed again; 0: never, or too long ago to matter.
func (m *Machine) shownAt(id schemas.UserID) schemas.Millis {
	if len(m.privacy) == 0 {
		return 0
	}
	return m.privacy[id].shownAt
}

// setShown stores at of a show; 0: the user hides.
func (m *Machine) setShown(id schemas.UserID, at schemas.Millis) {
	k := m.privacy[id]
	k.shownAt = at
	m.setPrivacy(id, k)
}

// notBefore raises an instant to that of a show. 0, never, stays: a show does not say that a device was heard.
func notBefore(shown, at schemas.Millis) schemas.Millis {
	if at == 0 {
		return 0
	}
	return max(at, shown)
}

func (m *Machine) setPrivacy(id schemas.UserID, k privacyRecord) {
	if k == (privacyRecord{}) {
		delete(m.privacy, id)
		return
	}
	m.privacy[id] = k
}

// addPrivacy adds the user's privacy record to s. If nothing else needs to be known, s says no more.
func (m *Machine) addPrivacy(s *schemas.Status) {
	k, found := m.privacy[s.User]
	if !found {
		return
	}
	if s.Tombstone() {
		*s = schemas.Status{User: s.User, State: s.State, Visibility: s.Visibility, Version: s.Version, PublishedAt: s.PublishedAt}
	}
	s.ShownAt, s.ErasedVersion, s.WithheldUntil = k.shownAt, k.erased, k.withheld
}

// forgetPrivacy forgets privacy records that no longer matter, and writes statuses without them.
// Transitions do not depend on when it does.
func (m *Machine) forgetPrivacy() {
	if m.replaying || m.clock.now < m.privacyAt {
		return
	}
	n := 0
	for id, k := range m.privacy {
		if n == privacyPerTick {
			return
		}
		e := m.index.find(&m.store, m.index.hash(id), id)
		left := k
		if e == none && k.shownAt+showMatters <= m.clock.now {
			left.shownAt = 0
		}
		if k.withheld <= m.clock.now {
			left.erased, left.withheld = 0, 0
		}
		if left == k {
			continue
		}
		n++
		m.setPrivacy(id, left)
		u := &m.scratch
		if e != none {
			u = m.load(e, u)
		} else {
			e = m.enter(id, u)
		}
		m.emitStatus(u)
		m.save(e, u, true)
	}
	m.privacyAt = m.clock.now + privacyEvery
}
