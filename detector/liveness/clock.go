package liveness

import (
	"slices"
	"sort"

	"github.com/stillhere/stillhere/schemas"
)

// maxStep is how far presence time may advance between two neighbouring records;
// see the design, section 3.
const maxStep = 5000

// maxFrozen bounds the list of frozen stretches, so that it fits in the metadata
// of a committed offset. More than that many outages within the life of one
// limit are counted as silence, oldest first.
const maxFrozen = 128

// presence is an instant or a length in presence time, milliseconds. It is a
// type of its own so that log time cannot be taken for it.
type presence int64

// clock is a partition's time, driven by append times alone.
type clock struct {
	now    schemas.Millis // log time: running maximum of the append times; 0 before the first record
	frozen []schemas.Span // log time that does not count, oldest first, no two overlap
	total  schemas.Millis // length of all that was ever frozen
	// stopped is since when the breaker keeps presence time where it is; 0 when it
	// does not.
	stopped schemas.Millis
	// given: frozen tells of all log time up to some instant that is still to come, as in a
	// restart. What is left of the log need not have all the records that time went by.
	given bool
}

// advance takes the append time of the next record. limit is how long the breaker may
// stop presence time; overdue is when it had to go on because of that, 0 if it has not.
func (c *clock) advance(appended, limit schemas.Millis) (overdue schemas.Millis) {
	if c.now == 0 || c.given {
		c.now = max(c.now, appended)
		return 0
	}
	if appended <= c.now {
		return 0
	}
	from := c.now + maxStep
	if c.stopped != 0 && appended-c.stopped >= limit {
		overdue = c.stopped + limit
		from = max(from, overdue)
		c.resume(overdue)
	}
	if from < appended && c.stopped == 0 {
		c.freeze(from, appended)
	}
	c.now = appended
	return overdue
}

func (c *clock) freeze(start, end schemas.Millis) {
	if start >= end {
		return
	}
	i := len(c.frozen)
	for i > 0 && c.frozen[i-1].Start > start { // when it is given what comes later
		i--
	}
	c.frozen = slices.Insert(c.frozen, i, schemas.Span{Start: start, End: end})
	c.total += end - start
}

// stop makes presence time stand still from the log time w on, which may have passed.
func (c *clock) stop(w schemas.Millis) {
	c.stopped = w
	if c.given {
		return
	}
	c.frozen = slices.Clone(c.frozen) // a checkpoint may look at what was
	for n := len(c.frozen); n > 0 && c.frozen[n-1].Start >= w; n-- {
		c.total -= c.frozen[n-1].End - c.frozen[n-1].Start
		c.frozen = c.frozen[:n-1]
	}
}

// resume ends what stop began.
func (c *clock) resume(w schemas.Millis) {
	c.freeze(c.stopped, w)
	c.stopped = 0
}

// presence is presence time at now.
func (c *clock) presence() presence { return c.at(c.now) }

// at is presence time at the log time w, which is not after now. Inside a frozen
// stretch it stands still.
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

// forget drops the stretches that ended before presence time p: nothing that is
// still pending began then.
func (c *clock) forget(p presence) {
	n := sort.Search(len(c.frozen), func(i int) bool { return c.at(c.frozen[i].End) >= p })
	if over := len(c.frozen) - maxFrozen; n < over {
		n = over
	}
	if n > 0 {
		c.frozen = slices.Delete(c.frozen, 0, n)
	}
}
