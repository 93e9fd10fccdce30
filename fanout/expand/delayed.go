package expand

import (
	"encoding/base64"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// delayed holds the transitions of one partition that wait until Config.Gap has passed since their
// user's last expansion: the newest of each user. The committed offset stays at the first of them,
// and the checkpoint says which of the records after it were planned. The planner's goroutine owns
// it.
type delayed struct {
	recent  map[schemas.UserID]time.Time // the last expansion, if less than a gap ago
	order   []expanded                   // the same, oldest first
	waiting map[schemas.UserID]delayedChange
	topic   schemas.TopicID
	next    int64 // the offset after the last record that was read
	// After a restart: the records before plannedUpTo were planned, except for pending.
	plannedUpTo int64
	pending     map[int64]struct{}
}

type expanded struct {
	user schemas.UserID
	at   time.Time
}

// delayedChange is a transition that waits, and its offset.
type delayedChange struct {
	change *schemas.Transition
	offset int64
	due    time.Time
}

// maxDelayed bounds the waiting transitions of a partition, so that the checkpoint fits into the
// 4,096 bytes of metadata that Kafka keeps. maxRecent bounds the users whose last expansion is
// remembered. Beyond either bound expansions of one user come closer together than Config.Gap.
const (
	maxDelayed = 500
	maxRecent  = 100_000
)

func newDelayed() *delayed {
	return &delayed{recent: map[schemas.UserID]time.Time{}, waiting: map[schemas.UserID]delayedChange{}, pending: map[int64]struct{}{}}
}

// planned reports whether a record was planned before a restart.
func (d *delayed) planned(offset int64) bool {
	_, waited := d.pending[offset]
	return offset < d.plannedUpTo && !waited
}

// advance records that the records before next were read.
func (d *delayed) advance(next int64) {
	d.next = max(d.next, next)
	maps.DeleteFunc(d.pending, func(offset int64, _ struct{}) bool { return offset < next })
}

// notBefore returns when user may be expanded again; zero: now.
func (d *delayed) notBefore(user schemas.UserID, now time.Time, gap time.Duration) time.Time {
	if at, ok := d.recent[user]; ok && now.Before(at.Add(gap)) {
		return at.Add(gap)
	}
	return time.Time{}
}

// add keeps t until due. It reports whether t replaced an older one.
func (d *delayed) add(t *schemas.Transition, offset int64, due time.Time) bool {
	_, older := d.waiting[t.User]
	d.waiting[t.User] = delayedChange{t, offset, due}
	return older
}

// takeDue returns the transitions that are due or above maxDelayed, in the order of the log.
func (d *delayed) takeDue(now time.Time) []delayedChange {
	var due []delayedChange
	for _, w := range d.waiting {
		if !now.Before(w.due) {
			due = append(due, w)
		}
	}
	if surplus := len(d.waiting) - len(due) - maxDelayed; surplus > 0 {
		var rest []delayedChange
		for _, w := range d.waiting {
			if now.Before(w.due) {
				rest = append(rest, w)
			}
		}
		slices.SortFunc(rest, byOffset)
		due = append(due, rest[:surplus]...)
	}
	slices.SortFunc(due, byOffset)
	return due
}

func byOffset(a, b delayedChange) int { return int(min(max(a.offset-b.offset, -1), 1)) }

// remove removes the transition of a user that has been planned, or was superseded.
func (d *delayed) remove(user schemas.UserID) { delete(d.waiting, user) }

// expanded records that user was expanded now.
func (d *delayed) expanded(user schemas.UserID, now time.Time, gap time.Duration) {
	if gap == 0 {
		return
	}
	d.recent[user] = now
	d.order = append(d.order, expanded{user, now})
	for len(d.order) > 0 && (len(d.order) > maxRecent || !now.Before(d.order[0].at.Add(gap))) {
		if oldest := d.order[0]; d.recent[oldest.user].Equal(oldest.at) {
			delete(d.recent, oldest.user)
		}
		d.order = d.order[1:]
	}
}

// nextDue is when the first transition is due; zero when none waits.
func (d *delayed) nextDue() (due time.Time) {
	for _, w := range d.waiting {
		if due.IsZero() || w.due.Before(due) {
			due = w.due
		}
	}
	return due
}

// firstOffset is the smallest offset that waits.
func (d *delayed) firstOffset() (first int64, any bool) {
	for _, offset := range d.offsets() {
		return offset, true
	}
	return 0, false
}

func (d *delayed) offsets() []int64 {
	all := slices.Collect(maps.Keys(d.pending))
	for _, w := range d.waiting {
		all = append(all, w.offset)
	}
	slices.Sort(all)
	return all
}

// The planner's part of a checkpoint is one field, whose number no other checkpoint uses. The
// processor adds its own fields to the message.
const (
	plannerField protowire.Number = 1000
	nextField    protowire.Number = 1
	offsetsField protowire.Number = 2 // the first, then differences
)

// checkpoint returns the metadata of a commit; empty when nothing waits.
func (d *delayed) checkpoint() string {
	offsets := d.offsets()
	if len(offsets) == 0 && d.next >= d.plannedUpTo {
		return ""
	}
	var packed []byte
	last := int64(0)
	for _, offset := range offsets {
		packed = protowire.AppendVarint(packed, uint64(offset-last))
		last = offset
	}
	var body []byte
	body = protowire.AppendTag(body, nextField, protowire.VarintType)
	body = protowire.AppendVarint(body, uint64(max(d.next, d.plannedUpTo)))
	body = protowire.AppendTag(body, offsetsField, protowire.BytesType)
	body = protowire.AppendBytes(body, packed)
	text := (&schemas.Checkpoint{TopicID: d.topic}).Encode()
	message, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		panic(err) // we have just encoded it
	}
	message = protowire.AppendTag(message, plannerField, protowire.BytesType)
	return base64.RawStdEncoding.EncodeToString(protowire.AppendBytes(message, body))
}

// restore reads what checkpoint wrote. It ignores the metadata of other consumers.
func (d *delayed) restore(at stream.Assignment) {
	d.topic = at.TopicID
	checkpoint, err := schemas.DecodeCheckpoint(at.Metadata)
	if err != nil || checkpoint.TopicID.Differs(at.TopicID) || at.Offset < at.LogStart || at.Offset > at.LogEnd {
		return
	}
	message, err := base64.RawStdEncoding.DecodeString(at.Metadata)
	if err != nil {
		return
	}
	fields(message, func(number protowire.Number, body []byte, _ uint64) {
		if number != plannerField {
			return
		}
		fields(body, func(number protowire.Number, packed []byte, n uint64) {
			switch number {
			case nextField:
				d.plannedUpTo = int64(n)
			case offsetsField:
				last := int64(0)
				for len(packed) > 0 {
					delta, length := protowire.ConsumeVarint(packed)
					if length < 0 {
						return
					}
					last += int64(delta)
					d.pending[last] = struct{}{}
					packed = packed[length:]
				}
			}
		})
	})
	if d.plannedUpTo > at.LogEnd { // the log was truncated: records from there on are new
		d.plannedUpTo = 0
		clear(d.pending)
	}
}

// fields calls f for each field of a message; fields are bytes or varints.
func fields(message []byte, f func(number protowire.Number, bytes []byte, n uint64)) {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return
		}
		message = message[length:]
		var bytes []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			bytes, length = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			n, length = protowire.ConsumeVarint(message)
		default:
			length = protowire.ConsumeFieldValue(number, kind, message)
		}
		if length < 0 {
			return
		}
		f(number, bytes, n)
		message = message[length:]
	}
}
