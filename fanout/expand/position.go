package expand

import (
	"encoding/base64"
	"hash/fnv"
	"maps"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// position is how far a task has come in its partition, in the checkpoint and after it. The records
// before next were read, and those that are neither waiting nor in a backlog were handled. The task's
// goroutine owns it.
type position struct {
	topic schemas.TopicID
	next  int64 // the offset after the last record that was read
	// After a restart: the records before handledUpTo were handled, except for pending, and for those of
	// a tenant from its cut on.
	handledUpTo int64
	pending     map[int64]struct{}
	cuts        map[uint64]int64 // by sum of the tenant
}

func newPosition() position {
	return position{pending: map[int64]struct{}{}, cuts: map[uint64]int64{}}
}

// sum stands for a tenant in a checkpoint. If two have one sum, a restart may handle records of one of
// them again.
func sum(tenant string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(tenant))
	return h.Sum64()
}

// waited reports whether a record waited at the time of the checkpoint.
func (p *position) waited(offset int64) bool {
	_, waited := p.pending[offset]
	return waited
}

// handled reports whether a record of a tenant was handled before a restart.
func (p *position) handled(offset int64, tenant string) bool {
	if offset >= p.handledUpTo || p.waited(offset) {
		return false
	}
	if len(p.cuts) == 0 {
		return true
	}
	cut, behind := p.cuts[sum(tenant)]
	return !behind || offset < cut
}

// advance records that the records before next were read.
func (p *position) advance(next int64) {
	p.next = max(p.next, next)
	maps.DeleteFunc(p.pending, func(offset int64, _ struct{}) bool { return offset < next })
	if p.next >= p.handledUpTo {
		clear(p.cuts)
	}
}

// catchesUp reports whether records are read again since a restart. Before they are, it is not known what
// they have superseded.
func (p *position) catchesUp() bool { return p.next < p.handledUpTo }

// cutsNow are the cuts of a checkpoint: the first record of each tenant that is not handled, given the
// first of each that is in the backlog.
func (p *position) cutsNow(backlog map[uint64]int64) map[uint64]int64 {
	for tenant, cut := range p.cuts { // what is not read again yet is not handled
		if _, read := backlog[tenant]; !read {
			backlog[tenant] = max(cut, p.next)
		}
	}
	return backlog
}

// A task's part of a checkpoint is one field, whose number no other checkpoint uses. The processor adds
// its own fields to the message.
const (
	taskField    protowire.Number = 1000
	nextField    protowire.Number = 1
	offsetsField protowire.Number = 2 // the first, then differences
	cutsField    protowire.Number = 3 // of each tenant its sum and how far before nextField
)

// checkpoint returns the metadata of a commit; empty when nothing waits. offsets ascend; cuts are those
// of cutsNow.
func (p *position) checkpoint(offsets []int64, cuts map[uint64]int64) string {
	if len(offsets) == 0 && len(cuts) == 0 && p.next >= p.handledUpTo {
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
	if len(cuts) > 0 {
		packed = packed[:0]
		for tenant, cut := range cuts {
			packed = protowire.AppendFixed64(packed, tenant)
			packed = protowire.AppendVarint(packed, uint64(max(0, next-cut)))
		}
		body = protowire.AppendTag(body, cutsField, protowire.BytesType)
		body = protowire.AppendBytes(body, packed)
	}
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
		clear(p.cuts)
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
		case cutsField: // after nextField
			for len(packed) > 0 {
				tenant, length := protowire.ConsumeFixed64(packed)
				if length < 0 {
					return
				}
				packed = packed[length:]
				before, length := protowire.ConsumeVarint(packed)
				if length < 0 {
					return
				}
				packed = packed[length:]
				p.cuts[tenant] = p.handledUpTo - int64(before)
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
