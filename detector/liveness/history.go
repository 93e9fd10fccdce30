package liveness

import "github.com/stillhere/stillhere/schemas"

// history remembers at which offset the log had reached which time, so that a
// commit can name the offset from which re-reading is enough.
type history struct {
	samples []sample // oldest first
	record  sample   // the record being applied
}

// sample is a record of the past.
type sample struct {
	offset int64
	before schemas.Millis // log time before it
	at     presence       // presence time at it
}

// historyGrain is how far samples are apart; a replay reads that much too much.
const historyGrain = 250

// before notes the record that is about to be applied.
func (h *history) before(offset int64, now schemas.Millis) {
	h.record = sample{offset: offset, before: now}
}

// after notes the presence time of that record. Nothing that was said at or before needed
// can matter any more.
func (h *history) after(at, needed presence) {
	if n := len(h.samples); n == 0 || at-h.samples[n-1].at >= historyGrain {
		h.record.at = at
		h.samples = append(h.samples, h.record)
	}
	n := 0
	for n+1 < len(h.samples) && h.samples[n+1].at <= needed {
		n++
	}
	if n > 0 {
		h.samples = h.samples[:copy(h.samples, h.samples[n:])]
	}
}

// replay is where re-reading must begin; false before the first record.
func (h *history) replay() (from sample, ok bool) {
	if len(h.samples) == 0 {
		return sample{}, false
	}
	return h.samples[0], true
}
