package sim

import (
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// device is one device of a user, and the person at it.
type device struct {
	user    schemas.UserID
	id      schemas.DeviceID
	kind    schemas.DeviceKind
	gateway *gateway // nil: writes to Kafka itself
	live    bool
	touched int64 // when the person last touched it
	session int   // counts connections, so that events of an old one do nothing
	// connection is open; 0: the device beats. used: its gateway has last said that it is in use.
	connection schemas.ConnectionID
	used       bool
}

// populate gives every user one to three devices. Sometimes the last user belongs to another
// partition, as if a producer hashed wrongly.
func (w *world) populate(users int) {
	kinds := schemas.Kinds
	for i := range users {
		user := w.mine(i)
		if i == users-1 && w.h.Partitions > 1 && users > 3 {
			for user = 1; schemas.PartitionOf(user, w.h.Partitions) == w.h.Partition; {
				user++
			}
		}
		for id := range 1 + w.IntN(3) {
			d := &device{user: user, id: schemas.DeviceID(id + 1), kind: kinds[w.IntN(len(kinds))]}
			w.devices = append(w.devices, d)
			w.after(w.between(0, minute), func() { w.connect(d, w.pick()) })
		}
	}
}

// pick chooses the gateway of a connection.
func (w *world) pick() *gateway {
	if w.chance(8) {
		return nil
	}
	return w.gateways[w.IntN(len(w.gateways))]
}

// connect begins a session: from some seconds to half an hour.
func (w *world) connect(d *device, through *gateway) {
	if d.live {
		return
	}
	if through != nil && through.dead {
		w.after(w.between(second, 30*second), func() { w.connect(d, w.pick()) })
		return
	}
	d.live, d.gateway, d.touched = true, through, w.now
	d.session++
	session := d.session
	if d.connection = 0; through != nil && w.chance(2) {
		d.connection, d.used = schemas.ConnectionID(session), true
		w.report(d, false)
		w.after(w.interval, func() { w.watch(d, session) })
	} else {
		w.beat(d, session)
	}
	length := w.between(second, 30*minute)
	if w.chance(4) {
		length = w.between(1, 20*second)
	}
	w.after(length, func() { w.leave(d, session) })
}

// watch has the gateway of an open connection say that its device is in use, or not any more.
func (w *world) watch(d *device, session int) {
	if !d.live || d.session != session {
		return
	}
	if w.touch(d); d.used != (w.now-d.touched < w.interval) {
		d.used = !d.used
		w.report(d, false)
	}
	w.after(w.interval, func() { w.watch(d, session) })
}

// touch has the person touch the device now and then.
func (w *world) touch(d *device) {
	if w.chance(3) { // active for a while, then not
		d.touched = w.now - w.Int64N(min(w.now+1, w.interval))
	}
}

// beat sends one beat and schedules the next.
func (w *world) beat(d *device, session int) {
	if !d.live || d.session != session {
		return
	}
	w.touch(d)
	w.report(d, false)
	next := w.interval - w.Int64N(w.interval/10+1)
	if w.chance(20) {
		next += w.between(0, 3*w.interval) // a beat that came late or not at all
	}
	w.after(next, func() { w.beat(d, session) })
}

// leave ends a session, with a bye or without, and mostly leads to another.
func (w *world) leave(d *device, session int) {
	if !d.live || d.session != session {
		return
	}
	if d.connection != 0 || w.chance(2) { // a gateway sees all that end
		w.report(d, true)
	}
	d.live = false
	away := w.between(0, 10*minute)
	if w.chance(3) {
		away = w.between(0, 2*w.interval) // a change of network
	}
	w.after(away, func() { w.connect(d, w.pick()) })
}

// report gives a beat, or the end of a session, to the gateway, or to Kafka where there is none.
func (w *world) report(d *device, ends bool) {
	row := history.Row{User: d.user, Device: d.id, Kind: d.kind, Bye: ends,
		Idle: min(w.now-d.touched, int64(schemas.MaxIdle)), Connection: d.connection}
	if d.connection != 0 {
		if row.Lost = ends && w.chance(2); row.Lost {
			row.Bye, row.Age = false, w.between(0, w.interval)
		}
		if d.used {
			row.Idle = 0
		}
	}
	if d.gateway != nil {
		d.gateway.take(row, w.now)
		return
	}
	w.append(history.Record{Rows: []history.Row{row}})
}
