package beat

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Reporter takes the reports of devices. Any goroutine may call it; it must not block.
type Reporter interface {
	// Hold says that a connection of the device is open. It has the user's name; nil with --ids int.
	Hold(user schemas.UserID, name *schemas.Name, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) error
	Bye(user schemas.UserID, device schemas.DeviceID) error
	Lost(user schemas.UserID, device schemas.DeviceID, ago time.Duration) error
}

// Device is one device of one user.
type Device struct {
	User schemas.UserID
	ID   schemas.DeviceID
}

// Registry counts the connections of each device at one gateway, so that the gateway reports that the device has left
// when the last of them ends: two tabs of a browser may have one device id, and a reloaded page may open its
// new connection before it closes the old one. All methods may be called from any goroutine.
type Registry struct {
	reporter Reporter
	began    time.Time

	mu    sync.Mutex             // protects conns, and what each says that it protects
	conns map[Device]*Connection // the first of a list, usually of one
}

// NewRegistry makes an empty Registry whose connections report to reporter.
func NewRegistry(reporter Reporter) *Registry {
	return &Registry{reporter: reporter, began: time.Now(), conns: map[Device]*Connection{}}
}

// Connection is one connection of a Device. End it with Bye, Drop or Drain. All methods may be called from
// any goroutine.
type Connection struct {
	registry *Registry
	of       Device
	kind     schemas.DeviceKind
	name     *schemas.Name // of the user; nil with --ids int
	heard    atomic.Int64  // when the client was last heard on it, since the registry began

	// The registry's lock protects these.
	joined  bool          // it counts as a connection of its device
	over    bool          // it may not join again
	used    bool          // the person uses the device through it
	touched time.Duration // since the registry began: the person did last
	next    *Connection   // of the same device
}

// New makes a connection of a device. name is that of the user; nil with --ids int. It counts from its first Beat.
func (r *Registry) New(of Device, name *schemas.Name, kind schemas.DeviceKind) *Connection {
	c := &Connection{registry: r, of: of, kind: kind, name: name}
	c.Hear()
	return c
}

// Hear stores that the client was heard on the connection now.
func (c *Connection) Hear() { c.heard.Store(int64(time.Since(c.registry.began))) }

// Beat reports that the connection is open and that its person last touched the device idle ago; 0: uses it, until a
// Beat says otherwise. A device is in use while it is through one of its connections. It does nothing after Bye, Drop
// or Drain.
func (c *Connection) Beat(idle time.Duration) error {
	r := c.registry
	r.mu.Lock() // also while it is reported: an end of the device comes before or after it
	defer r.mu.Unlock()
	if c.over {
		return nil
	}
	c.Hear()
	if !c.joined {
		c.joined = true
		c.next = r.conns[c.of]
		r.conns[c.of] = c
	}
	c.used, c.touched = idle <= 0, time.Since(r.began)-idle
	return r.reporter.Hold(c.of.User, c.name, c.of.ID, c.kind, r.idle(c.of))
}

// idle is how long the person has not touched a device with connections; 0 while it is in use through one of them.
func (r *Registry) idle(of Device) time.Duration {
	touched := r.conns[of].touched
	for at := r.conns[of]; at != nil; at = at.next {
		if touched = max(touched, at.touched); at.used {
			return 0
		}
	}
	return max(time.Millisecond, time.Since(r.began)-touched)
}

// Bye ends a connection that was closed on purpose. The device leaves if it has no other.
func (c *Connection) Bye() error { return c.registry.part(c, true, byBye) }

// Leave is Bye for a connection that stays open: a later Beat brings the device back.
func (c *Connection) Leave() error { return c.registry.part(c, false, byBye) }

// Drop ends a connection that was lost. That is no bye: the detector waits for the device to
// return. It fails only while the buffer is closing, when all connections count as lost.
func (c *Connection) Drop() error { return c.registry.part(c, true, byLoss) }

// Drain ends a connection because this process stops: nothing is reported, since the gateway drains.
func (c *Connection) Drain() { _ = c.registry.part(c, true, byDrain) } // there is nothing to fail

// parting is how a connection ends.
type parting int

const (
	byBye parting = iota
	byLoss
	byDrain
)

// part removes a connection, for good if it is over. It reports how if the
// device then has no other. The report is made
// before another connection can join, so it is older than the beat of that one.
func (r *Registry) part(c *Connection, over bool, how parting) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, wasUsed := c.joined, c.joined && c.used
	c.joined, c.over = false, c.over || over
	var first *Connection
	if wasUsed {
		c.touched = time.Since(r.began)
	}
	for at := r.conns[c.of]; at != nil; {
		next := at.next
		if at != c {
			at.next, first, last = first, at, false
			at.heard.Store(max(at.heard.Load(), c.heard.Load())) // the device was
			at.touched = max(at.touched, c.touched)
		}
		at = next
	}
	c.next = nil
	if first == nil {
		delete(r.conns, c.of)
	} else {
		r.conns[c.of] = first
	}
	switch {
	case how == byDrain:
		return nil
	case first != nil && wasUsed && r.idle(c.of) > 0:
		return r.reporter.Hold(c.of.User, first.name, c.of.ID, first.kind, r.idle(c.of))
	case !last:
		return nil
	case how == byBye:
		return r.reporter.Bye(c.of.User, c.of.ID)
	}
	return r.reporter.Lost(c.of.User, c.of.ID, time.Since(r.began)-time.Duration(c.heard.Load()))
}
