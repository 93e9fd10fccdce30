package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// history remembers at which offset the log had reached which time, so that a
// commit can name the offset from which re-reading is enough.
type history struct {
	samples []sample // oldest first
	record  sample   // the record being applied
	// continues: the first sample is that of a record before which there were others.
	continues bool
}

// sample is a record of the past.
type sample struct {
	offset int64
	before schemas.Millis // log time before it
	at     presence       // presence time at it
	first  bool           // nothing was known before it
}

// historyGrain is how far samples are apart; a replay reads that much too much.
const historyGrain = 250

// before notes the record that is about to be applied.
func (h *history) before(offset int64, now schemas.Millis) {
	h.record = sample{offset: offset, before: now, first: len(h.samples) == 0 && !h.continues}
}

// after notes the presence time of that record. Nothing that was reported at or
// before needed can matter any more, unless pinned: then what matters is kept as
// it is, because devices wait in the queue whose places hang on one another.
func (h *history) after(at, needed presence, pinned bool) {
	if n := len(h.samples); n == 0 || at-h.samples[n-1].at >= historyGrain {
		h.record.at = at
		h.samples = append(h.samples, h.record)
	}
	if pinned {
		return
	}
	n := 0
	for n+1 < len(h.samples) && h.samples[n+1].at <= needed {
		n++
	}
	if n > 0 {
		h.samples = h.samples[:copy(h.samples, h.samples[n:])]
	}
}

// pins keep what byes ended in the stretch that a restart re-reads. A bye that ends nothing
// there would not be remembered, and a late beat that it outdates would count.
type pins []pin

// pin is a bye and the oldest report that it ended, in log time.
type pin struct{ bye, seen schemas.Millis }

// add pins a report until the bye is of no account. Later pins that are no younger make
// those before them superfluous.
func (p *pins) add(bye, seen schemas.Millis) {
	n := len(*p)
	for n > 0 && (*p)[n-1].seen >= seen && (*p)[n-1].bye <= bye {
		n--
	}
	*p = append((*p)[:n], pin{bye, seen})
}

// oldest is the oldest report pinned by a bye that is less than memory before x.
func (p *pins) oldest(c *clock, x, memory presence) presence {
	oldest := never
	*p = slices.DeleteFunc(*p, func(p pin) bool {
		if c.at(p.bye)+memory <= x {
			return true
		}
		oldest = min(oldest, c.at(p.seen))
		return false
	})
	return oldest
}

// replay is where re-reading must begin; false before the first record.
func (h *history) replay() (from sample, ok bool) {
	if len(h.samples) == 0 {
		return sample{}, false
	}
	return h.samples[0], true
}
