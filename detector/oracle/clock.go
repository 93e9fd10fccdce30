package oracle

import "github.com/stillhere/stillhere/schemas"

// millis is an instant or a length in presence time, milliseconds.
type millis int64

// maxStep is how far presence time advances between two neighbouring records.
const maxStep = 5000

// frozen is a stretch of log time in which presence time stands still.
type frozen struct{ start, end schemas.Millis }

// clock is the partition's time.
type clock struct {
	now    schemas.Millis // log time W: running maximum of the append times
	frozen []frozen       // all there ever were
}

// advance takes the append time of the next record.
func (c *clock) advance(appended schemas.Millis) {
	before := c.now
	c.now = max(before, appended)
	if before != 0 && c.now-before > maxStep {
		c.frozen = append(c.frozen, frozen{before + maxStep, c.now})
	}
}

// presence is P(w): w without what was frozen before it.
func (c *clock) presence(w schemas.Millis) millis {
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
