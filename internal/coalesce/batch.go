package coalesce

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Batch is the content of one frame. It belongs to the caller of Seal until Settle.
type Batch struct {
	// Sequence counts the frames of a queue from 1, in the order of sealing. A number is never used
	// again, also not for reports that are sent again: an unacknowledged frame may be in the log.
	Sequence uint64
	Draining bool
	// Beats are at most MaxFrameRows; none in a draining frame.
	Beats []schemas.Beat
	// Names are those of rows whose users have to be named.
	Names []NamedRow
	// Value is the caller's buffer for the encoding. It is reused with the batch.
	Value []byte
	slots []int32 // of the rows
	// sealed is when the batch was.
	sealed time.Duration
}

// Bounds of the batches that are reused: few and small, because after a storm every queue would
// keep its largest.
const (
	maxSpare     = 2
	maxSpareRows = 256
)

// Seal makes a frame of the reports that may leave now, with their ages now. It returns nil if
// there is none or if too many frames are unacknowledged. Call it until it returns nil: one frame
// holds at most MaxFrameRows.
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
			Age: age(now, s), Idle: schemas.Millis(s.idle), Lost: s.lost && !s.bye,
		})
		if row := &b.Beats[len(b.Beats)-1]; s.open() {
			row.Connection = s.connection
			if now-s.received > q.rules.ForgetAfter/2 { // the detector ignores what is old; it is true now, too
				row.Age = 0
				if s.idle != 0 {
					row.Idle = s.idleAt(now)
				}
			}
		}
		if len(q.names) > 0 && (!s.bye && !s.lost || q.rules.NameAlways) {
			q.appendName(b, i, now)
		}
		b.slots = append(b.slots, i)
	}
	q.ready = q.ready[:copy(q.ready, q.ready[n:])]
	if len(b.Beats) == 0 {
		q.keep(b)
		return nil
	}
	return q.sealAs(b, now)
}

// age is how long ago a report came in, but not further back than the acknowledgement of the
// device's report before it. The broker stamps that one somewhat after it came in; a report that
// came in between would seem older, and the detector ignores what is older.
func age(now time.Duration, s *slot) schemas.Millis {
	return min(schemas.Millis((now-max(s.received, s.written))/time.Millisecond), schemas.MaxAge)
}

// Alive tells whether the detector may still count the gateway as alive in this partition: some
// device is present, or a frame was sealed within ForgetAfter.
func (q *Queue) Alive(now time.Duration) bool {
	return q.Devices() > 0 || now-q.sealed < q.rules.ForgetAfter
}

// SealDraining makes the frame by which the gateway announces that it stops; nil if it is not
// Alive.
func (q *Queue) SealDraining(now time.Duration) *Batch {
	if !q.Alive(now) {
		return nil
	}
	b := q.batch()
	b.Draining = true
	return q.sealAs(b, now)
}

func (q *Queue) sealAs(b *Batch, now time.Duration) *Batch {
	q.sequence++
	b.Sequence = q.sequence
	b.sealed, q.sealed = now, now
	q.flights++
	return b
}

// Settle takes a batch back after Kafka's answer. Reports that were not written wait again, unless
// their devices have reported since.
func (q *Queue) Settle(now time.Duration, b *Batch, written bool) {
	q.flights--
	for row, i := range b.slots {
		s := &q.slots[i]
		s.state &^= inFlight
		if written {
			s.written, s.told = now, b.Beats[row].Connection != 0
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
		default:
			s.lost = false
		}
	}
	if len(q.names) > 0 {
		q.settleNames(b, written)
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
		clear(b.Names) // the names are not kept alive
		*b = Batch{Beats: b.Beats[:0], Names: b.Names[:0], Value: b.Value[:0], slots: b.slots[:0]}
		q.spare = append(q.spare, b)
	}
}
