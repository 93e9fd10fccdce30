package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// millis is an instant or a length in presence time, milliseconds.
type millis int64

// maxStep is how far presence time advances between two neighbouring records.
const maxStep = 5000

// frozen is a stretch of log time in which presence time stands still.
type frozen struct{ start, end schemas.Millis }

// clock is the partition's time.
type clock struct {
	now    schemas.Millis // log time W: running maximum of the append times
	frozen []frozen       // all there ever were; none overlap
	// stopped is since when the breaker is open; 0 when it is not.
	stopped schemas.Millis
}

// advance takes the append time of the next record. An open breaker lets presence time go
// on after limit; overdue tells that it has just done so.
func (c *clock) advance(appended, limit schemas.Millis) (overdue bool) {
	before := c.now
	c.now = max(before, appended)
	if before == 0 {
		return false
	}
	start := before + maxStep
	if c.stopped != 0 && c.now-c.stopped >= limit {
		overdue = true
		end := c.stopped + limit
		c.close(end)
		start = max(start, end)
	}
	if c.stopped == 0 && start < c.now {
		c.frozen = append(c.frozen, frozen{start, c.now})
	}
	return overdue
}

// open makes presence time stand still from start on.
func (c *clock) open(start schemas.Millis) {
	c.frozen = slices.DeleteFunc(c.frozen, func(f frozen) bool { return f.start >= start })
	c.stopped = start
}

// close ends what open began.
func (c *clock) close(end schemas.Millis) {
	c.frozen = append(c.frozen, frozen{c.stopped, end})
	c.stopped = 0
}

// presence is P(w): w without what was frozen before it.
func (c *clock) presence(w schemas.Millis) millis {
	if c.stopped != 0 {
		w = min(w, c.stopped)
	}
	p := w
	for _, f := range c.frozen {
		if w > f.start {
			p -= min(w, f.end) - f.start
		}
	}
	return millis(p)
}

// wall is the earliest log time w with P(w) ≥ p.
func (c *clock) wall(p millis) schemas.Millis {
	w := schemas.Millis(p)
	for _, f := range c.frozen {
		if w > f.start {
			w += f.end - f.start
		}
	}
	return w
}
