package schemas

import (
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// fields are the values of a Transition or Status by field number. Both are flat:
// numbers, a few strings, and one set of device kinds.
type fields struct {
	number [lastField + 1]uint64
	text   [lastText + 1][]byte
	kinds  KindSet
}

const (
	lastField = 31
	lastText  = 14
)

// form says which fields of a message are not numbers.
type form struct {
	last  protowire.Number // greatest field number this program knows
	kinds protowire.Number // the repeated device kinds
	texts uint32           // bit set of the strings
}

var (
	transitionForm = form{last: transitionLeftOut, kinds: transitionKinds, texts: 1<<transitionEventID | 1<<transitionPolicyID}
	statusForm     = form{last: statusPolicyAt, kinds: statusKinds}
)

// read takes the fields out of value. Whatever a Protobuf writer does not normally
// do goes through the generated decoder, into empty, and is read again from what
// that writes.
func (f *fields) read(form *form, value []byte, what string, empty func() proto.Message) error {
	value, err := Unframed(value)
	if err != nil {
		return err
	}
	if f.scan(form, value) {
		return nil
	}
	m := empty()
	if err := proto.Unmarshal(value, m); err != nil {
		return &FieldError{Code: "malformed", Field: what, Reason: "is not Protobuf: " + err.Error()}
	}
	m.ProtoReflect().SetUnknown(nil)
	*f = fields{}
	if !f.scan(form, encode(m)) {
		return Invalid(what, "cannot be put in canonical form")
	}
	return nil
}

// scan reports false for anything unusual, a broken value included.
func (f *fields) scan(form *form, value []byte) (usual bool) {
	for len(value) > 0 {
		tag, n := protowire.ConsumeVarint(value)
		if n < 0 {
			return false
		}
		value = value[n:]
		number, kind := protowire.Number(tag>>3), protowire.Type(tag&7)
		known := number <= form.last
		switch {
		case tag>>3 == 0 || tag>>3 > uint64(protowire.MaxValidNumber):
			return false
		case kind == protowire.VarintType:
			v, n := protowire.ConsumeVarint(value)
			if n < 0 || known && (number == form.kinds || form.texts>>number&1 != 0) {
				return false
			}
			value = value[n:]
			if known {
				f.number[number] = v
			}
		case kind == protowire.BytesType:
			v, n := protowire.ConsumeBytes(value)
			if n < 0 {
				return false
			}
			value = value[n:]
			if known && !f.bytes(form, number, v) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// bytes stores a length-delimited field.
func (f *fields) bytes(form *form, number protowire.Number, v []byte) (usual bool) {
	switch {
	case number == form.kinds:
		for len(v) > 0 {
			k, n := protowire.ConsumeVarint(v)
			if n < 0 {
				return false
			}
			f.kinds, v = f.kinds.With(DeviceKind(k)), v[n:]
		}
	case form.texts>>number&1 != 0 && utf8.Valid(v):
		f.text[number] = v
	default:
		return false
	}
	return true
}

// appendNumber appends a field unless it has the default.
func appendNumber(dst []byte, number protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	return appendVarint(dst, number, uint64(v))
}

// appendKinds appends a set of device kinds, ascending and packed.
func appendKinds(dst []byte, number protowire.Number, kinds KindSet) []byte {
	if kinds.Len() == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = append(dst, byte(kinds.Len())) // a kind takes one byte
	for _, k := range Kinds {
		if kinds&(1<<k) != 0 {
			dst = append(dst, byte(k))
		}
	}
	return dst
}

// policies remembers the policy read last: nearly always it is that of the next.
var policies atomic.Pointer[string]

// policy is text as a string, without allocating when it is the last one again.
func policy(text []byte) string {
	if last := policies.Load(); last != nil && *last == string(text) {
		return *last
	}
	s := string(text)
	policies.Store(&s)
	return s
}
