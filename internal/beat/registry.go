package beat

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Reporter takes the reports of devices. Any goroutine may call it; it must not block.
type Reporter interface {
	// Beat has the user's name; nil with --ids int.
	Beat(user schemas.UserID, name *schemas.Name, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) error
	Bye(user schemas.UserID, device schemas.DeviceID) error
}

// Device is one device of one user.
type Device struct {
	User schemas.UserID
	ID   schemas.DeviceID
}

// Registry counts the connections of each device at one gateway, so that the gateway reports a bye when
// the last of them closes: two tabs of a browser may have one device id, and a reloaded page may open its
// new connection before it closes the old one. All methods may be called from any goroutine.
type Registry struct {
	reporter  Reporter
	began     time.Time
	intervals atomic.Pointer[intervals]

	mu    sync.Mutex             // protects conns, and next, joined and over of each
	conns map[Device]*Connection // the first of a list, usually of one
}

// NewRegistry makes an empty Registry whose connections report to reporter.
func NewRegistry(reporter Reporter, heartbeatInterval time.Duration) *Registry {
	r := &Registry{reporter: reporter, began: time.Now(), conns: map[Device]*Connection{}}
	r.Follow(heartbeatInterval, nil)
	return r
}

// intervals is how often devices beat. It is never changed.
type intervals struct {
	interval time.Duration
	tenants  map[string]time.Duration // of tenants with policies of their own
}

// Follow changes the heartbeat interval, and those of tenants that have their own. tenants must not be changed
// any more.
func (r *Registry) Follow(heartbeatInterval time.Duration, tenants map[string]time.Duration) {
	r.intervals.Store(&intervals{heartbeatInterval, tenants})
}

// of is how often the devices of a user beat; name is nil with --ids int.
func (p *intervals) of(name *schemas.Name) time.Duration {
	if name != nil {
		if own, ok := p.tenants[name.Tenant]; ok {
			return own
		}
	}
	return p.interval
}

// Connection is one connection of a Device. End it with Bye or Drop. All methods may be called from
// any goroutine.
type Connection struct {
	registry *Registry
	of       Device
	kind     schemas.DeviceKind
	name     *schemas.Name // of the user; nil with --ids int
	heard    atomic.Int64  // when the client was last heard on it, since the registry began

	// The registry's lock protects these.
	joined bool        // it counts as a connection of its device
	over   bool        // it may not join again
	next   *Connection // of the same device
}

// New makes a connection of a device. name is that of the user; nil with --ids int. It counts from its first Beat.
func (r *Registry) New(of Device, name *schemas.Name, kind schemas.DeviceKind) *Connection {
	c := &Connection{registry: r, of: of, kind: kind, name: name}
	c.Hear()
	return c
}

// Hear stores that the client was heard on the connection now.
func (c *Connection) Hear() { c.heard.Store(int64(time.Since(c.registry.began))) }

// Silent is how long the client was not heard on the connection.
func (c *Connection) Silent() time.Duration {
	return time.Since(c.registry.began) - time.Duration(c.heard.Load())
}

// Beat reports that the device is online and that its person last touched it idle ago. It does
// nothing after Bye or Drop.
func (c *Connection) Beat(idle time.Duration) error {
	if !c.registry.join(c) {
		return nil
	}
	return c.registry.reporter.Beat(c.of.User, c.name, c.of.ID, c.kind, idle)
}

// Bye ends a connection that was closed on purpose. The device leaves if none of its other
// connections has been heard within one and a half heartbeat intervals: a silent one may be lost
// already.
func (c *Connection) Bye() error { return c.registry.part(c, true, true) }

// Leave is Bye for a connection that stays open: a later Beat brings the device back.
func (c *Connection) Leave() error { return c.registry.part(c, false, true) }

// Drop ends a connection that was lost. That is no bye: the detector waits for the device to
// return.
func (c *Connection) Drop() { _ = c.registry.part(c, true, false) } // only a bye can fail

// join adds a connection to those of its device, unless it has joined already. It returns false if
// the connection is over.
func (r *Registry) join(c *Connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.over {
		return false
	}
	c.Hear()
	if !c.joined {
		c.joined = true
		c.next = r.conns[c.of]
		r.conns[c.of] = c
	}
	return true
}

// part removes a connection, for good if it is over. It reports a bye if that is wanted and the
// device then has no connection that was heard recently. The bye is reported before another
// connection can join, so it is older than the beat of that one.
func (r *Registry) part(c *Connection, over, bye bool) error {
	silence := 3 * r.intervals.Load().of(c.name) / 2
	r.mu.Lock()
	defer r.mu.Unlock()
	leaves := c.joined
	c.joined, c.over = false, c.over || over
	var first *Connection
	for at := r.conns[c.of]; at != nil; {
		next := at.next
		if at != c {
			leaves = leaves && at.Silent() > silence
			at.next, first = first, at
		}
		at = next
	}
	c.next = nil
	if first == nil {
		delete(r.conns, c.of)
	} else {
		r.conns[c.of] = first
	}
	if leaves && bye {
		return r.reporter.Bye(c.of.User, c.of.ID)
	}
	return nil
}
