package liveness

import (
	"slices"
	"sort"

	"github.com/stillhere/stillhere/schemas"
)

// maxStep is how far presence time may advance between two neighbouring records, milliseconds; see
// ../DESIGN.md.
const maxStep = 5000

// maxFrozen bounds the list of frozen spans. If there are more outages before one limit is reached, the oldest count as
// silence.
const maxFrozen = 64

// presence is an instant or a length in presence time, milliseconds. It is a type of its own so
// that it cannot be mixed up with log time.
type presence int64

// clock is the time of a partition. Only append times advance it.
type clock struct {
	now    schemas.Millis // log time: running maximum of the append times; 0 before the first record
	frozen []schemas.Span // log time that does not count, oldest first, no two overlap
	total  schemas.Millis // length of all spans that were ever frozen
	// stopped is since when the breaker stops presence time; 0: it does not.
	stopped schemas.Millis
}

// advance takes the append time of the next record. limit is how long the breaker may stop presence
// time; overdue is when it resumed because of that limit, 0 if it did not.
func (c *clock) advance(appended, limit schemas.Millis) (overdue schemas.Millis) {
	if c.now == 0 {
		c.now = max(c.now, appended)
		return 0
	}
	from := c.now + maxStep
	c.now = max(c.now, appended)
	if c.stopped != 0 && c.now-c.stopped >= limit {
		overdue = c.stopped + limit
		from = max(from, overdue)
		c.resume(overdue)
	}
	if c.stopped == 0 {
		c.freeze(from, c.now)
	}
	return overdue
}

func (c *clock) freeze(start, end schemas.Millis) {
	if start >= end {
		return
	}
	c.frozen = append(c.frozen, schemas.Span{Start: start, End: end})
	c.total += end - start
}

// stop stops presence time from the log time w on, which may have passed. It may lie in a gap, whose
// span stays frozen.
func (c *clock) stop(w schemas.Millis) { c.stopped = w }

// resume ends a stop. Of a gap that the stop has covered in part, the rest stays frozen.
func (c *clock) resume(w schemas.Millis) {
	n := len(c.frozen)
	for n > 0 && c.frozen[n-1].End > c.stopped {
		n--
	}
	later := slices.Clone(c.frozen[n:])
	c.frozen = c.frozen[:n]
	for _, s := range later {
		c.total -= s.End - s.Start
	}
	c.freeze(c.stopped, w)
	for _, s := range later {
		c.freeze(max(s.Start, w), s.End)
	}
	c.stopped = 0
}

// presence is presence time at now.
func (c *clock) presence() presence { return c.at(c.now) }

// at is presence time at the log time w, which is not after now. Inside a frozen span it stands
// still.
func (c *clock) at(w schemas.Millis) presence {
	if c.stopped != 0 {
		w = min(w, c.stopped)
	}
	total := c.total
	for i := len(c.frozen) - 1; i >= 0; i-- {
		s := c.frozen[i]
		if w >= s.End {
			break
		}
		total -= s.End - s.Start
		if w >= s.Start {
			return presence(s.Start - total)
		}
	}
	return presence(w - total)
}

// wall is the earliest log time at which presence time is p.
func (c *clock) wall(p presence) schemas.Millis {
	total := c.total
	for i := len(c.frozen) - 1; i >= 0; i-- {
		s := c.frozen[i]
		if p > presence(s.End-total) {
			break
		}
		total -= s.End - s.Start
	}
	return schemas.Millis(p) + total
}

// forget drops the spans that ended before presence time p. Nothing pending may have begun before
// p. If there are too many it drops others, too, and reports it: instants before these come earlier.
func (c *clock) forget(p presence) (moved bool) {
	n := sort.Search(len(c.frozen), func(i int) bool { return c.at(c.frozen[i].End) >= p })
	if over := len(c.frozen) - maxFrozen; n < over {
		n, moved = over, true
	}
	if n > 0 {
		c.frozen = slices.Delete(c.frozen, 0, n)
	}
	return moved
}
