// Package devices counts the connections of each device at one gateway, so that the gateway reports
// a bye when the last of them closes. Two tabs of a browser may have the same device id, and a
// reloaded page may open its new connection before it closes the old one. The Go client and the
// WebSocket endpoint both use it.
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

// Connection is one connection of a Device. With only Of set, it is one that has not joined.
type Connection struct {
	Of    Device
	heard atomic.Int64 // when the client was last heard on it, since the gateway began

	// The registry's lock protects these.
	joined bool        // it counts as a connection of its device
	over   bool        // it may not join again
	next   *Connection // of the same device
}

// Hear stores that the client was heard on the connection now, a time since the gateway began. Any
// goroutine may call it.
func (c *Connection) Hear(now time.Duration) { c.heard.Store(int64(now)) }

// Heard is when the client was last heard on the connection.
func (c *Connection) Heard() time.Duration { return time.Duration(c.heard.Load()) }

// Registry counts connections. All methods may be called from any goroutine.
type Registry struct {
	mu    sync.Mutex             // protects conns, and next, joined and over of each
	conns map[Device]*Connection // the first of a list, usually of one
}

// NewRegistry makes an empty Registry.
func NewRegistry() *Registry { return &Registry{conns: map[Device]*Connection{}} }

// Join adds a connection to those of its device, unless it has joined already. It is heard now.
// Join returns false if the connection is over. Report the beat after Join.
func (r *Registry) Join(c *Connection, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.over {
		return false
	}
	c.Hear(now)
	if !c.joined {
		c.joined = true
		c.next = r.conns[c.Of]
		r.conns[c.Of] = c
	}
	return true
}

// Part removes a connection, for good if it is over. It calls last if the device then has no
// connection: this one had joined, and none of the others was heard since the given time. A
// connection that is silent for longer may be lost already and must not keep the device present.
// last is called before another connection can join, so that a bye in it is older than the beat of
// that one; it must not block.
func (r *Registry) Part(c *Connection, over bool, since time.Duration, last func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	leaves := c.joined
	c.joined, c.over = false, c.over || over
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
