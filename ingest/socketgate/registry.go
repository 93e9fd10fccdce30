package socketgate

import (
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// device is one device of one user.
type device struct {
	user schemas.UserID
	id   schemas.DeviceID
}

// registry knows which sockets a device has here.
type registry struct {
	mu      sync.Mutex             // protects sockets, and of each its next, here and over
	sockets map[device]*connection // the first of a list, usually of one
}

// join adds a socket to those of its device, if it is not there already. It
// reports false when the socket is over.
func (r *registry) join(s *connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.over {
		return false
	}
	if !s.here {
		s.here = true
		s.next = r.sockets[s.who.device]
		r.sockets[s.who.device] = s
	}
	return true
}

// part takes a socket away, for good if it is over. It tells whether that leaves
// the device without a socket: it was there, and no other was heard since. One
// that is silent for longer may be lost already and must not keep the device
// here.
func (r *registry) part(s *connection, over bool, since time.Duration) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last = s.here
	s.here, s.over = false, s.over || over
	var first *connection
	for at := r.sockets[s.who.device]; at != nil; {
		next := at.next
		if at != s {
			last = last && time.Duration(at.heard.Load()) < since
			at.next, first = first, at
		}
		at = next
	}
	s.next = nil
	if first == nil {
		delete(r.sockets, s.who.device)
	} else {
		r.sockets[s.who.device] = first
	}
	return last
}
