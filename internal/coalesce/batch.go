package coalesce

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Batch is the content of one frame. It belongs to the caller of Seal until the
// caller hands it to Settle.
type Batch struct {
	// Sequence counts the frames of a queue from 1, in the order of sealing. A
	// number is never used again, also not for reports that are sent again: the
	// frame of which nothing is known may be in the log.
	Sequence uint64
	Draining bool
	// Beats are at most MaxFrameRows; none in an alive or draining frame.
	Beats []schemas.Beat
	// Value is room for the encoding, kept with the batch to be used again.
	Value []byte
	slots []int32 // where the rows came from
}

// Batches that are kept to be used again: few and small, because after a storm
// every queue would keep its largest.
const (
	maxSpare     = 2
	maxSpareRows = 256
)

// Seal makes a frame of what may leave now, with the ages of now; nil when there
// is nothing or too many frames are unanswered. Call it until it gives nil: one
// frame holds only so many rows.
func (q *Queue) Seal(now time.Duration) *Batch {
	if !q.Ready() {
		return nil
	}
	b := q.batch()
	n := 0
	for ; n < len(q.ready) && len(b.Beats) < schemas.MaxFrameRows; n++ {
		i := q.ready[n]
		s := &q.slots[i]
		s.state &^= inReady
		if s.state&(unsent|inFlight) != unsent {
			continue
		}
		s.state = s.state&^(unsent|urgent) | inFlight
		b.Beats = append(b.Beats, schemas.Beat{
			User: s.user, Device: s.device, Kind: schemas.DeviceKind(s.kind), Bye: s.bye,
			Age: age(now, s), Idle: schemas.Millis(s.idle),
		})
		b.slots = append(b.slots, i)
	}
	q.ready = q.ready[:copy(q.ready, q.ready[n:])]
	if len(b.Beats) == 0 {
		q.keep(b)
		return nil
	}
	return q.sealAs(b, now)
}

// age is how long ago a report came in, but not further back than when the
// report before it was known to be in the log. The broker stamps a report when
// it appends it, somewhat after it came in; a report that comes in between would
// seem older than the one before it, and the detector ignores what is older.
func age(now time.Duration, s *slot) schemas.Millis {
	return min(schemas.Millis((now-max(s.received, s.written))/time.Millisecond), schemas.MaxAge)
}

// SealAlive makes an empty frame when some device is here and nothing was sealed
// for so long; nil otherwise.
func (q *Queue) SealAlive(now, after time.Duration) *Batch {
	if q.Here() == 0 || now-q.sealed < after || q.control > 0 || q.flights >= q.rules.MaxInFlight {
		return nil
	}
	q.control++
	return q.sealAs(q.batch(), now)
}

// Lives tells whether the detector may still count the gateway as alive in this
// partition: some device is here, or something was sent of late.
func (q *Queue) Lives(now time.Duration) bool {
	return q.Here() > 0 || now-q.sealed < q.rules.ForgetAfter
}

// SealDraining makes the frame by which the gateway says that it is about to
// stop, when it lives here; nil otherwise.
func (q *Queue) SealDraining(now time.Duration) *Batch {
	if !q.Lives(now) {
		return nil
	}
	q.control++
	b := q.batch()
	b.Draining = true
	return q.sealAs(b, now)
}

func (q *Queue) sealAs(b *Batch, now time.Duration) *Batch {
	q.sequence++
	b.Sequence = q.sequence
	q.sealed = now
	q.flights++
	return b
}

// Settle takes a batch back after Kafka's answer: what was written is done with,
// what was not goes back to waiting, unless its device has reported since.
func (q *Queue) Settle(now time.Duration, b *Batch, written bool) {
	q.flights--
	if len(b.Beats) == 0 {
		q.control--
	}
	for _, i := range b.slots {
		s := &q.slots[i]
		s.state &^= inFlight
		if written {
			s.written = now
		}
		switch {
		case s.state&unsent != 0:
			if !written {
				q.coalesced++
			}
			q.list(i)
		case !written:
			s.state |= unsent
			q.list(i)
		case s.bye:
			q.left = append(q.left, i)
		}
	}
	q.keep(b)
}

func (q *Queue) batch() *Batch {
	if n := len(q.spare); n > 0 {
		b := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return b
	}
	return &Batch{}
}

func (q *Queue) keep(b *Batch) {
	if len(q.spare) < maxSpare && cap(b.slots) <= maxSpareRows {
		*b = Batch{Beats: b.Beats[:0], Value: b.Value[:0], slots: b.slots[:0]}
		q.spare = append(q.spare, b)
	}
}
