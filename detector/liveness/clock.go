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
const maxFrozen = 256

// presence is an instant or a length in presence time, milliseconds. It is a
// type of its own so that log time cannot be taken for it.
type presence int64

// clock is a partition's time, driven by append times alone.
type clock struct {
	now    schemas.Millis // log time: running maximum of the append times; 0 before the first record
	frozen []schemas.Span // log time that does not count, oldest first
	total  schemas.Millis // length of all that was ever frozen
}

// advance takes the append time of the next record.
func (c *clock) advance(appended schemas.Millis) {
	if c.now == 0 {
		c.now = appended
		return
	}
	if appended <= c.now {
		return
	}
	if appended-c.now > maxStep {
		c.frozen = append(c.frozen, schemas.Span{Start: c.now + maxStep, End: appended})
		c.total += appended - c.now - maxStep
	}
	c.now = appended
}

// presence is presence time at now.
func (c *clock) presence() presence { return presence(c.now - c.total) }

// at is presence time at the log time w, which is not after now. Inside a frozen
// stretch it stands still.
func (c *clock) at(w schemas.Millis) presence {
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
