package oracle

import "github.com/stillhere/stillhere/schemas"

// millis is an instant or a length in presence time, milliseconds.
type millis int64

// maxStep is how far presence time may advance between two neighbouring records, milliseconds.
const maxStep = 5000

// frozen is a span of log time in which presence time stands still.
type frozen struct{ start, end schemas.Millis }

// clock is the partition's time.
type clock struct {
	now    schemas.Millis // log time W: running maximum of the append times
	frozen []frozen       // all spans, in order; none overlap
	// stopped is since when the breaker is open; 0: it is not.
	stopped schemas.Millis
}

// advance takes the append time of the next record. Presence time resumes when the breaker has been
// open for limit; overdue reports that it has just done so.
func (c *clock) advance(appended, limit schemas.Millis) (overdue bool) {
	before := c.now
	c.now = max(before, appended)
	if before != 0 {
		c.freeze(frozen{before + maxStep, c.now})
	}
	if c.stopped == 0 || c.now-c.stopped < limit {
		return false
	}
	c.close(c.stopped + limit)
	return true
}

// freeze makes presence time stand still in f, too. Spans that overlap count once.
func (c *clock) freeze(f frozen) {
	if f.start >= f.end {
		return
	}
	var all []frozen
	for _, other := range c.frozen {
		switch {
		case other.end < f.start:
			all = append(all, other)
		case other.start > f.end:
			all, f = append(all, f), other
		default:
			f = frozen{min(f.start, other.start), max(f.end, other.end)}
		}
	}
	c.frozen = append(all, f)
}

// open stops presence time from start on.
func (c *clock) open(start schemas.Millis) { c.stopped = start }

// close resumes presence time at end.
func (c *clock) close(end schemas.Millis) {
	c.freeze(frozen{c.stopped, end})
	c.stopped = 0
}

// presence is P(w): w without the frozen spans before it.
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
