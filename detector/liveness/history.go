package liveness

import "github.com/stillhere/stillhere/schemas"

// history remembers which time the log had reached at which offset, so that a checkpoint can name
// the offset from which a restart must re-read.
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

// historyGrain is the distance of samples, milliseconds; a replay reads at most that much too much.
const historyGrain = 250

// before stores the record that is applied next.
func (h *history) before(offset int64, now schemas.Millis) {
	h.record = sample{offset: offset, before: now}
}

// after stores the presence time of that record. A restart needs no record before the presence time
// needed.
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

// replay is where re-reading must begin; ok is false before the first record.
func (h *history) replay() (from sample, ok bool) {
	if len(h.samples) == 0 {
		return sample{}, false
	}
	return h.samples[0], true
}
