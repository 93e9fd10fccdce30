package liveness

import "github.com/stillhere/stillhere/detector/snapshot"

// capture writes a snapshot while records are applied: what Walk would have written at its beginning, with users
// in another order. A user is written before the first record that may change it, so no record waits for others.
type capture struct {
	walk
	next, end uint32   // the entries that are left; those behind end came later
	done      []uint64 // bits of entries that were written, or that came later
	scratch   user
}

// Capture begins a capture, and writes everything to s but the users with entries. The conditions are those of
// Walk. Nobody else may write to s before CaptureMore has returned true.
func (m *Machine) Capture(s *snapshot.Codec) {
	c := &capture{walk: walk{Codec: s}, end: m.store.end()}
	c.machine(m)
	c.done = make([]uint64, (c.end+63)/64)
	m.capture = c
}

// CaptureMore writes up to n more users, and reports whether the capture is complete. It is called between two
// records.
func (m *Machine) CaptureMore(n int) (complete bool) {
	c := m.capture
	end := min(c.end, m.store.end())
	for ; c.next < end && n > 0; c.next++ {
		if m.store.hot(c.next).user != 0 && c.take(c.next) {
			c.write(m, c.next, &c.scratch)
			n--
		}
	}
	if c.next < end {
		return false
	}
	m.capture = nil
	return true
}

// take reports whether nobody has taken an entry before.
func (c *capture) take(e uint32) bool {
	if e >= c.end || c.done[e/64]>>(e%64)&1 != 0 {
		return false
	}
	c.done[e/64] |= 1 << (e % 64)
	return true
}

// touch is called before the user of an entry may change.
func (m *Machine) touch(e uint32) {
	if c := m.capture; c != nil && m.store.hot(e).user != 0 && c.take(e) {
		c.write(m, e, &c.scratch)
	}
}
