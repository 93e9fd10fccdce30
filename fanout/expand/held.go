package expand

import (
	"encoding/base64"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/schemas"
)

// held are the transitions of one partition that wait until their user may be expanded
// again: the newest of each user. The offset that is committed does not go past the first
// of them, and the checkpoint says which of the records behind that have been planned.
// The planner's goroutine owns it.
type held struct {
	recent  map[schemas.UserID]time.Time // when it was expanded last, if less than a gap ago
	order   []expanded                   // the same, oldest first
	waiting map[schemas.UserID]waits
	topic   schemas.TopicID
	next    int64 // after the last record that was taken
	// Since a restart: what lies before through was planned, except for again.
	through int64
	again   map[int64]struct{}
}

type expanded struct {
	user schemas.UserID
	at   time.Time
}

// waits is a transition that waits, and its place in the log.
type waits struct {
	change *schemas.Transition
	offset int64
	due    time.Time
}

// maxHeld is how many may wait in one partition: what of them goes into the checkpoint
// stays below what Kafka keeps as metadata, 4,096 bytes. maxRecent bounds the users known
// to have been expanded a moment ago. Beyond either expansions of one user are closer.
const (
	maxHeld   = 500
	maxRecent = 100_000
)

func newHeld() *held {
	return &held{recent: map[schemas.UserID]time.Time{}, waiting: map[schemas.UserID]waits{}, again: map[int64]struct{}{}}
}

// planned tells whether a record was planned before a restart.
func (h *held) planned(offset int64) bool {
	_, waited := h.again[offset]
	return offset < h.through && !waited
}

// takenUpTo notes that the records before next have been taken.
func (h *held) takenUpTo(next int64) {
	h.next = max(h.next, next)
	maps.DeleteFunc(h.again, func(offset int64, _ struct{}) bool { return offset < next })
}

// until is when user may be expanded again; zero: now.
func (h *held) until(user schemas.UserID, now time.Time, gap time.Duration) time.Time {
	if at, ok := h.recent[user]; ok && now.Before(at.Add(gap)) {
		return at.Add(gap)
	}
	return time.Time{}
}

// wait keeps t until due. It tells whether it took the place of an older one.
func (h *held) wait(t *schemas.Transition, offset int64, due time.Time) bool {
	_, older := h.waiting[t.User]
	h.waiting[t.User] = waits{t, offset, due}
	return older
}

// release takes out what is due, and what there is no room for, in the order of the log.
func (h *held) release(now time.Time) []waits {
	var due []waits
	for _, w := range h.waiting {
		if !now.Before(w.due) {
			due = append(due, w)
		}
	}
	if surplus := len(h.waiting) - len(due) - maxHeld; surplus > 0 {
		var rest []waits
		for _, w := range h.waiting {
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

func byOffset(a, b waits) int { return int(min(max(a.offset-b.offset, -1), 1)) }

// done takes a transition out that has been planned, or an older one of its user.
func (h *held) done(user schemas.UserID) { delete(h.waiting, user) }

// expanded notes that the user's followers were told of, or are about to be.
func (h *held) expanded(user schemas.UserID, now time.Time, gap time.Duration) {
	if gap == 0 {
		return
	}
	h.recent[user] = now
	h.order = append(h.order, expanded{user, now})
	for len(h.order) > 0 && (len(h.order) > maxRecent || !now.Before(h.order[0].at.Add(gap))) {
		if oldest := h.order[0]; h.recent[oldest.user].Equal(oldest.at) {
			delete(h.recent, oldest.user)
		}
		h.order = h.order[1:]
	}
}

// due is when the next may be told; zero when nothing waits.
func (h *held) due() (due time.Time) {
	for _, w := range h.waiting {
		if due.IsZero() || w.due.Before(due) {
			due = w.due
		}
	}
	return due
}

// first is the offset of the first that waits.
func (h *held) first() (first int64, any bool) {
	for _, offset := range h.offsets() {
		return offset, true
	}
	return 0, false
}

func (h *held) offsets() []int64 {
	all := slices.Collect(maps.Keys(h.again))
	for _, w := range h.waiting {
		all = append(all, w.offset)
	}
	slices.Sort(all)
	return all
}

// The planner's part of a checkpoint: a field that nobody else's has, with numbers of
// fields of its own. The loop adds to the message what it needs.
const (
	plannerField protowire.Number = 1000
	nextField    protowire.Number = 1
	offsetsField protowire.Number = 2 // the first, then the difference to the one before
)

// checkpoint is the metadata of a commit; empty when there is nothing to say.
func (h *held) checkpoint() string {
	offsets := h.offsets()
	if len(offsets) == 0 && h.next >= h.through {
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
	body = protowire.AppendVarint(body, uint64(max(h.next, h.through)))
	body = protowire.AppendTag(body, offsetsField, protowire.BytesType)
	body = protowire.AppendBytes(body, packed)
	text := (&schemas.Checkpoint{TopicID: h.topic}).Encode()
	message, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		panic(err) // we have just encoded it
	}
	message = protowire.AppendTag(message, plannerField, protowire.BytesType)
	return base64.RawStdEncoding.EncodeToString(protowire.AppendBytes(message, body))
}

// restore reads what checkpoint wrote. Metadata of anybody else says nothing.
func (h *held) restore(at schemas.Commit) {
	h.topic = at.TopicID
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
				h.through = int64(n)
			case offsetsField:
				last := int64(0)
				for len(packed) > 0 {
					delta, length := protowire.ConsumeVarint(packed)
					if length < 0 {
						return
					}
					last += int64(delta)
					h.again[last] = struct{}{}
					packed = packed[length:]
				}
			}
		})
	})
	if h.through > at.LogEnd { // the log was cut back: what comes there now is new
		h.through = 0
		clear(h.again)
	}
}

// fields calls f with the fields of a message, bytes or varints.
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
