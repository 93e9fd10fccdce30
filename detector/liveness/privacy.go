package liveness

import (
	byHeap "container/heap"

	"github.com/stillhere/stillhere/schemas"
)

const (
	// showMatters is how long after a show a report can still have a time before it.
	showMatters = schemas.MaxIdle + schemas.MaxAge
	// privacyEvery is after how much log time a privacy record is looked at again that still matters then.
	privacyEvery = schemas.Millis(10 * 60 * 1000)
	// privacyPerTick bounds how many privacy records one tick looks at.
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
	// looksAt is the instant in Machine.fading at which the record is looked at; 0: it is not. A record that does
	// not matter any more stays until then, so that a user has one place there.
	looksAt schemas.Millis
}

// due is the earliest instant at which a part of k does not matter any more; 0: no part does.
func (k *privacyRecord) due() schemas.Millis {
	if k.shownAt == 0 || k.withheld != 0 && k.withheld < k.shownAt+showMatters {
		return k.withheld
	}
	return k.shownAt + showMatters
}

// ErasedVersion is the version of the user's erasure; 0: the user was not erased, or the status need not say it any more.
func (m *Machine) ErasedVersion(id schemas.UserID) schemas.Version { return m.privacy[id].erased }

// shownAt is when the user showed again; 0: never, or too long ago to matter.
func (m *Machine) shownAt(id schemas.UserID) schemas.Millis {
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
	k.looksAt = m.privacy[id].looksAt
	if due := k.due(); due != 0 && (k.looksAt == 0 || due < k.looksAt) && !m.adopting {
		k.looksAt = due
		byHeap.Push(&m.fading, userAt{due, id})
	}
	if k == (privacyRecord{}) {
		delete(m.privacy, id)
		return
	}
	m.privacy[id] = k
}

// addPrivacy adds the user's privacy record to s. If nothing else needs to be known, s says no more.
func (m *Machine) addPrivacy(s *schemas.Status) {
	k := m.privacy[s.User]
	if k.shownAt == 0 && k.erased == 0 {
		return
	}
	if s.Tombstone() {
		*s = schemas.Status{User: s.User, State: s.State, Visibility: s.Visibility, Version: s.Version}
	}
	s.ShownAt, s.ErasedVersion, s.WithheldUntil = k.shownAt, k.erased, k.withheld
}

// forgetPrivacy forgets privacy records that no longer matter, and writes statuses without them. Transitions do
// not depend on when it does: a user who has an entry is looked at again, because a status also says when the user was
// heard, and of which log epoch it is, and these go on from there after a lost commit.
func (m *Machine) forgetPrivacy() {
	for n := 0; n < privacyPerTick && len(m.fading) > 0 && m.fading[0].at <= m.clock.now; {
		f, _ := byHeap.Pop(&m.fading).(userAt)
		k := m.privacy[f.user]
		if k.looksAt != f.at {
			continue // a snapshot does not have this place
		}
		n++
		left := privacyRecord{shownAt: k.shownAt, erased: k.erased, withheld: k.withheld}
		gone := m.index.find(&m.store, m.index.hash(f.user), f.user) == none
		if gone && k.shownAt+showMatters <= m.clock.now {
			left.shownAt = 0
		}
		if gone && k.withheld <= m.clock.now {
			left.erased, left.withheld = 0, 0
		}
		same := left == (privacyRecord{shownAt: k.shownAt, erased: k.erased, withheld: k.withheld})
		if due := left.due(); due == 0 {
			delete(m.privacy, f.user)
		} else {
			left.looksAt = max(due, m.clock.now+privacyEvery)
			m.privacy[f.user] = left
			byHeap.Push(&m.fading, userAt{left.looksAt, f.user})
		}
		if !same {
			m.restate(f.user)
		}
	}
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
