package liveness

import (
	"cmp"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// place is a device's place in the release queue.
type place struct {
	until   presence // when the device would have fallen silent
	due     presence
	release presence
	seen    schemas.Millis
	user    schemas.UserID
	device  schemas.DeviceID
	life    uint16
}

// queue paces the devices of lost gateways, first in, first out.
type queue struct {
	places []place
	first  int
	free   int64 // presence time of the earliest release to be given, microseconds
}

// next is when the first device in the queue is released.
func (q *queue) next() presence {
	if q.first == len(q.places) {
		return never
	}
	return q.places[q.first].release
}

// queueUp makes a held device wait for its release.
func (m *Machine) queueUp(u *user, r *report) {
	r.phase = queued
	until := m.presentUntil(r)
	due := max(until+m.reconnectWindow, m.clock.at(m.floor(u)))
	m.joining = append(m.joining, place{until: until, due: due, seen: r.seen, user: u.id, device: r.device,
		life: r.life})
}

// join gives a place to each device that has become due.
func (m *Machine) join() {
	if len(m.joining) == 0 {
		return
	}
	slices.SortStableFunc(m.joining, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device),
			cmp.Compare(a.seen, b.seen))
	})
	q := &m.queue
	if q.first > len(q.places)/2 {
		q.places = slices.Delete(q.places, 0, q.first)
		q.first = 0
	}
	for _, p := range m.joining {
		release := max(int64(p.due)*1000, q.free)
		q.free = release + m.cohortStep
		p.release = presence((release + 999) / 1000)
		q.places = append(q.places, p)
	}
	m.joining = m.joining[:0]
}

// release releases the first device of the queue, if it has not returned.
func (m *Machine) release() {
	q := &m.queue
	p := q.places[q.first]
	q.first++
	if q.first == len(q.places) {
		q.places, q.first = q.places[:0], 0
	}
	e := m.index.find(&m.store, m.index.hash(p.user), p.user)
	if e == none {
		return
	}
	u := m.load(e, &m.scratch)
	m.releaseDevice(u, p)
	m.save(e, u, true)
}
