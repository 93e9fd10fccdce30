package expand

import (
	"encoding/base64"
	"maps"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// position is how far a planner has come in its partition, in the checkpoint and after it. The records
// before next were read, and those that do not wait were planned. The planner's goroutine owns it.
type position struct {
	topic schemas.TopicID
	next  int64 // the offset after the last record that was read
	// After a restart the records before handledUpTo were planned, except for pending.
	handledUpTo int64
	pending     map[int64]struct{}
}

// handled reports whether a record was planned before a restart.
func (p *position) handled(offset int64) bool {
	_, waited := p.pending[offset]
	return offset < p.handledUpTo && !waited
}

// advance records that the records before next were read.
func (p *position) advance(next int64) {
	p.next = max(p.next, next)
	maps.DeleteFunc(p.pending, func(offset int64, _ struct{}) bool { return offset < next })
}

// A task's part of a checkpoint is one field, whose number no other checkpoint uses. The processor adds
// its own fields to the message.
const (
	taskField    protowire.Number = 1000
	nextField    protowire.Number = 1
	offsetsField protowire.Number = 2 // the first, then differences
)

// encode returns the metadata of a commit; empty when nothing waits. offsets are those that wait, and ascend.
func (p *position) encode(offsets []int64) string {
	if len(offsets) == 0 && p.next >= p.handledUpTo {
		return ""
	}
	next := max(p.next, p.handledUpTo)
	var packed []byte
	last := int64(0)
	for _, offset := range offsets {
		packed = protowire.AppendVarint(packed, uint64(offset-last))
		last = offset
	}
	var body []byte
	body = protowire.AppendTag(body, nextField, protowire.VarintType)
	body = protowire.AppendVarint(body, uint64(next))
	body = protowire.AppendTag(body, offsetsField, protowire.BytesType)
	body = protowire.AppendBytes(body, packed)
	text := (&schemas.Checkpoint{TopicID: p.topic}).Encode()
	message, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		panic(err) // we have just encoded it
	}
	message = protowire.AppendTag(message, taskField, protowire.BytesType)
	return base64.RawStdEncoding.EncodeToString(protowire.AppendBytes(message, body))
}

// restore reads what checkpoint wrote. It ignores the metadata of other consumers.
func (p *position) restore(at stream.Assignment) {
	p.topic = at.TopicID
	checkpoint, err := schemas.DecodeCheckpoint(at.Metadata)
	if err != nil || checkpoint.TopicID.Differs(at.TopicID) || at.Offset < at.LogStart || at.Offset > at.LogEnd {
		return
	}
	message, err := base64.RawStdEncoding.DecodeString(at.Metadata)
	if err != nil {
		return
	}
	fields(message, func(number protowire.Number, body []byte, _ uint64) {
		if number == taskField {
			p.decode(body)
		}
	})
	if p.handledUpTo > at.LogEnd { // the log was truncated: records from there on are new
		p.handledUpTo = 0
		clear(p.pending)
	}
}

func (p *position) decode(body []byte) {
	fields(body, func(number protowire.Number, packed []byte, n uint64) {
		switch number {
		case nextField:
			p.handledUpTo = int64(n)
		case offsetsField:
			last := int64(0)
			for len(packed) > 0 {
				delta, length := protowire.ConsumeVarint(packed)
				if length < 0 {
					return
				}
				last += int64(delta)
				p.pending[last] = struct{}{}
				packed = packed[length:]
			}
		}
	})
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
