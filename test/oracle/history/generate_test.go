package history

import "github.com/stillhere/stillhere/schemas"

// fromSeed makes the history of a seed.
func fromSeed(seed uint64) *History {
	h := fromBytes(ofSeed(seed, seedBytes(seed)))
	h.MostDue = []int{0, 0, 0, 1, 2, 3}[seed%6]
	if (seed+seed/6)%3 == 2 {
		h = withConnections(h, seed)
	}
	if (seed+seed/18)%3 == 2 {
		h = withLeases(h, seed)
	}
	if (seed+seed/54)%3 == 2 {
		h = withOverrides(h, seed)
	}
	return h
}

// unbounded is fromSeed where no limit waits for the next record, so that more records change nothing.
func unbounded(seed uint64) *History {
	h := fromSeed(seed)
	h.MostDue = 0
	return h
}

// starts are instants at which histories begin: today and in ten years, and around those
// at which the low 32 or 31 bits of the clock wrap.
var starts = []int64{0, int64(usualStart), wrap, wrap + 1<<31, wrap - 1<<31, wrap + 1<<32, 1_795_400_000_000, 2_100_000_000_000}

// wrap is 2026-11-21 21:25:29.728 UTC, a multiple of 2^32 milliseconds.
const wrap = 418 << 32

// fromBytes makes the history of a byte string.
func fromBytes(bytes []byte) *History {
	s := &source{bytes: bytes}
	h := &History{Settings: settings(s), Partitions: one(s, int32(1), 1, 1, 3), Start: one(s, starts...)}
	if h.Start != 0 {
		// Within 30 days of it, most of them close.
		h.Start += one(s, int64(-1), 1) * one(s, int64(0), 1, 300_000, 86_400_000, 30*86_400_000) * int64(s.below(256)) / 256
	}
	// Versions run out in some histories.
	h.Offset = one(s, int64(0), 0, 0, 0, 7, schemas.MaxVersionOffset-60, schemas.MaxVersionOffset*2)
	h.Partition = int32(s.below(int(h.Partitions)))
	g := &generator{source: s, h: h, users: h.users(1 + s.below(4)), epochs: map[string]int64{}, sequences: map[string]uint64{}}
	for !s.empty() {
		g.record()
	}
	// Let everything run out that is still pending.
	for range 60 {
		g.add(Record{After: one(s, int64(1000), 5000, 4750), Tick: true})
	}
	return h
}

// users are n users of the history's partition, and one of another if there is
// another.
func (h *History) users(n int) []schemas.UserID {
	var users []schemas.UserID
	foreign := h.Partitions > 1
	for id := schemas.UserID(1); len(users) < n || foreign; id++ {
		switch mine := schemas.PartitionOf(id, h.Partitions) == h.Partition; {
		case mine && len(users) < n:
			users = append(users, id)
		case !mine && foreign:
			users, foreign, n = append(users, id), false, n+1
		}
	}
	return users
}

type generator struct {
	*source
	h         *History
	users     []schemas.UserID
	epochs    map[string]int64
	sequences map[string]uint64
}

func (g *generator) add(r Record) { g.h.Records = append(g.h.Records, r) }

// after is the time since the record before.
func (g *generator) after() int64 {
	switch g.below(16) {
	case 15:
		if g.chance(64) {
			const day = 24 * 3600 * 1000
			return one(g.source, int64(day), 20*day, 25*day, 38*day, 49*day+70_000_000, 60*day, 121*day)
		}
		return one(g.source, int64(1000), 4750, 5000, 5001, 5250, 7000, 30_000, 180_000)
	case 14:
		return int64(g.below(3000))
	case 13:
		return -int64(g.below(600))
	case 12, 11:
		return 0
	case 10:
		return one(g.source, int64(249), 251, 1, 500)
	}
	return grid
}

func (g *generator) record() {
	r := Record{After: g.after()}
	switch kind := g.below(32); {
	case kind < 10:
		r.Tick = true
	case kind == 10:
		r.Garbage = true
	case kind == 11:
		r.Hide = one(g.source, g.users...)
	case kind == 12:
		r.Show = one(g.source, g.users...)
	case kind == 15 && g.chance(3):
		r.Erase = one(g.source, g.users...)
	case kind == 14 && g.chance(8):
		p := settings(g.source)
		r.Policy = &p
	case kind == 13 && len(g.h.Records) > 0:
		// A frame that a producer has written twice.
		again := g.h.Records[len(g.h.Records)-1-g.below(min(4, len(g.h.Records)))]
		again.After = r.After
		r = again
	default:
		g.gateway(&r)
		for range g.below(4) {
			r.Rows = append(r.Rows, g.row())
		}
	}
	g.add(r)
}

// gateway says through whom a frame comes.
func (g *generator) gateway(r *Record) {
	r.Gateway = one(g.source, "", "a", "a", "b", "c")
	if r.Gateway == "" {
		return
	}
	if g.epochs[r.Gateway] == 0 {
		g.epochs[r.Gateway] = 10
	}
	r.Epoch = g.epochs[r.Gateway]
	switch g.below(24) {
	case 23:
		g.epochs[r.Gateway] += int64(1 + g.below(3))
		r.Epoch = g.epochs[r.Gateway]
		g.sequences[r.Gateway] = 0
	case 22:
		r.Epoch -= int64(g.below(5)) // a frame of a life that is over
	case 21:
		r.Draining = true
	}
	r.Forward = g.chance(12)
	if r.Gateway == "a" && !r.Forward { // counts its frames; the others do not
		g.sequences[r.Gateway]++
		r.Sequence = g.sequences[r.Gateway]
		if g.chance(8) {
			r.Sequence = uint64(g.below(4)) + one(g.source, uint64(0), 0, 1<<16, 2<<16, 1<<63)
		}
	}
}

func (g *generator) row() Row {
	b := Row{
		User: one(g.source, g.users...), Device: one(g.source, schemas.DeviceID(1), 1, 2, 3, 4),
		Kind: one(g.source, schemas.Mobile, schemas.Mobile, schemas.Web, schemas.Desktop), Bye: g.chance(7),
	}
	switch g.below(8) {
	case 7:
		b.Age = one(g.source, int64(1000), 3000, 8000, 45_000, 100_000, 400_000)
	case 6:
		b.Age = int64(g.below(12)) * grid
	case 5:
		b.Age = int64(g.below(500))
	}
	switch g.below(6) {
	case 5:
		b.Idle = g.h.Settings.IdleAfter.Milliseconds() + one(g.source, int64(0), 1, 250, 60_000) - 1
	case 4, 3:
		b.Idle = int64(g.below(20)) * grid
	case 2:
		b.Idle = int64(g.below(400_000))
		if g.chance(8) {
			b.Idle = one(g.source, int64(schemas.MaxIdle), int64(schemas.MaxIdle)-1, 25*86_400_000)
		}
	}
	b.Idle = max(b.Idle, 0)
	return b
}
