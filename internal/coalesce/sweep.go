package coalesce

import (
	"slices"
	"time"
)

// Sweep forgets devices that have been silent for ForgetAfter. It looks at every device: call it
// every few seconds.
//
// A report that could not be sent yet is kept although its device has left, so that its last-seen
// time is not lost. Devices come and go while Kafka is unreachable, so the number of such reports
// is bounded by the greatest number of present devices; beyond that the oldest are dropped, but never the end of a
// connection that is open by the log. A dropped report is a bye or the last beat of a device: without it the detector
// still finds the device silent.
func (q *Queue) Sweep(now time.Duration) {
	q.erased.sweep(now)
	q.tellAgain(now, func(s *slot) bool { return now-s.written >= s.tellAgainAfter() })
	silent := 0
	for i := range q.slots {
		s := &q.slots[i]
		if s.state&used == 0 || s.open() || now-s.received < q.rules.ForgetAfter {
			continue
		}
		if s.state&(unsent|inFlight) == 0 {
			q.forget(int32(i))
		} else if !s.bye {
			silent++
		}
	}
	if silent+q.byes > q.allowedAbsent() {
		q.dropAbsent(now)
	}
	if silent+q.byes == 0 {
		q.peak = q.Devices()
	}
	q.dropAt = 0
}

// allowedAbsent is how many devices may be remembered although they have left. The peak counts, not
// the devices that are present now: everybody may leave at once.
func (q *Queue) allowedAbsent() int { return max(minAbsent, q.peak) }

// forgetLeft forgets the devices whose bye is in the log. They are remembered until the next flush,
// so that the beats of a device that flaps are not all urgent first beats.
func (q *Queue) forgetLeft() {
	for _, i := range q.left {
		if s := &q.slots[i]; s.bye && s.state&(used|unsent|inFlight) == used {
			q.forget(i)
		}
	}
	q.left = q.left[:0]
}

// dropAbsent drops the older half of the unsent reports of devices that have left.
func (q *Queue) dropAbsent(now time.Duration) {
	var times []time.Duration
	for i := range q.slots {
		if q.droppable(&q.slots[i], now) {
			times = append(times, q.slots[i].received)
		}
	}
	// Reports in flight cannot be dropped, and a search at every bye would not change that.
	defer func() { q.dropAt = q.byes + q.allowedAbsent()/2 }()
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	newest := times[(len(times)-1)/2]
	for i := range q.slots {
		if s := &q.slots[i]; q.droppable(s, now) && s.received <= newest {
			s.state &^= unsent | urgent
			q.forget(int32(i))
			q.dropped++
		}
	}
}

func (q *Queue) droppable(s *slot, now time.Duration) bool {
	return s.state&(used|unsent|inFlight) == used|unsent && !s.open() && !s.told && (s.bye || now-s.received >= q.rules.ForgetAfter)
}
