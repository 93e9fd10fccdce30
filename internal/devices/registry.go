// Package devices knows which connections each device of a user has at one gateway, so
// that the gateway says bye when the last of them closes. Two tabs of a browser may have
// the same device id, and a page that is loaded again may open its new connection before
// it closes the old. The Go client and the WebSocket endpoint count alike.
package devices

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Device is one device of one user.
type Device struct {
	User schemas.UserID
	ID   schemas.DeviceID
}

// Connection is one connection of a Device. The zero value but for Of is one that has
// not joined.
type Connection struct {
	Of    Device
	heard atomic.Int64 // when something was last heard on it, since the gateway began

	// The registry's lock protects these.
	here bool        // it counts as one of its device
	over bool        // and never will again
	next *Connection // of the same device
}

// Hear notes that something was heard on the connection now, a time since the gateway
// began. Any goroutine may call it.
func (c *Connection) Hear(now time.Duration) { c.heard.Store(int64(now)) }

// Heard is when something was last heard.
func (c *Connection) Heard() time.Duration { return time.Duration(c.heard.Load()) }

// Registry counts connections. All methods may be called from any goroutine.
type Registry struct {
	mu    sync.Mutex             // protects conns, and of each its next, here and over
	conns map[Device]*Connection // the first of a list, usually of one
}

// NewRegistry makes an empty one.
func NewRegistry() *Registry { return &Registry{conns: map[Device]*Connection{}} }

// Join adds a connection, on which something is heard now, to those of its device, if it
// is not there already. It reports false when the connection is over. Report the beat
// after it.
func (r *Registry) Join(c *Connection, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.over {
		return false
	}
	c.Hear(now)
	if !c.here {
		c.here = true
		c.next = r.conns[c.Of]
		r.conns[c.Of] = c
	}
	return true
}

// Part takes a connection away, for good if it is over, and calls last if that leaves
// the device without a connection: this one was there, and on no other was anything
// heard since. One that is silent for longer may be lost already and must not keep the
// device here. last is called before another connection can join, so that a bye it
// reports is older than the beat of that one; it must not block.
func (r *Registry) Part(c *Connection, over bool, since time.Duration, last func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	leaves := c.here
	c.here, c.over = false, c.over || over
	var first *Connection
	for at := r.conns[c.Of]; at != nil; {
		next := at.next
		if at != c {
			leaves = leaves && at.Heard() < since
			at.next, first = first, at
		}
		at = next
	}
	c.next = nil
	if first == nil {
		delete(r.conns, c.Of)
	} else {
		r.conns[c.Of] = first
	}
	if leaves && last != nil {
		last()
	}
}
