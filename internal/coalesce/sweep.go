package coalesce

import (
	"slices"
	"time"
)

// Sweep forgets devices that have been silent for ForgetAfter. It looks at every
// device: call it every few seconds.
//
// A report that could not be sent yet is kept although its device is gone, so
// that its last-seen time is not lost. But devices come and go while Kafka is
// away, so such reports may take as much room as the devices that were here;
// beyond that the oldest are dropped. What is dropped is a bye or the last beat
// of a device: without it the detector still finds the device silent.
func (q *Queue) Sweep(now time.Duration) {
	left := 0
	for i := range q.slots {
		s := &q.slots[i]
		if s.state&used == 0 || now-s.received < q.rules.ForgetAfter {
			continue
		}
		if s.state&(unsent|inFlight) == 0 {
			q.forget(int32(i))
		} else if !s.bye {
			left++
		}
	}
	if left+q.byes > q.allowedGone() {
		q.dropGone(now)
	}
	if left+q.byes == 0 {
		q.peak = q.Here()
	}
	q.dropAt = 0
}

// allowedGone is how many devices may be kept although they have left. The peak
// counts, not how many are here now: everybody may leave at once.
func (q *Queue) allowedGone() int { return max(minGone, q.peak) }

// forgetLeft forgets the devices whose bye is in the log. They are remembered
// until the next flush so that flapping does not make every beat a first one.
func (q *Queue) forgetLeft() {
	for _, i := range q.left {
		if s := &q.slots[i]; s.bye && s.state&(used|unsent|inFlight) == used {
			q.forget(i)
		}
	}
	q.left = q.left[:0]
}

// dropGone drops the older half of the unsent reports of devices that have gone.
func (q *Queue) dropGone(now time.Duration) {
	var times []time.Duration
	for i := range q.slots {
		if q.droppable(&q.slots[i], now) {
			times = append(times, q.slots[i].received)
		}
	}
	// What is in flight cannot be dropped: looking again at every bye would not
	// change that.
	defer func() { q.dropAt = q.byes + q.allowedGone()/2 }()
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	newest := times[(len(times)-1)/2]
	for i := range q.slots {
		if s := &q.slots[i]; q.droppable(s, now) && s.received <= newest {
			s.state &^= unsent | urgent
			q.forget(int32(i))
			q.shed++
		}
	}
}

func (q *Queue) droppable(s *slot, now time.Duration) bool {
	return s.state&(used|unsent|inFlight) == used|unsent && (s.bye || now-s.received >= q.rules.ForgetAfter)
}
