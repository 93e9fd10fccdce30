package schemas

import (
	"math/bits"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec reads or writes the fields of a Transition or Status. Such a message lists its fields
// once, in ascending order of their numbers; the list serves both directions.
type codec struct {
	fields  // what was read
	form    *form
	reading bool   // otherwise it writes
	dst     []byte // what was written
}

// number reads or writes a number. A message does not hold numbers that are 0.
func number[T ~int64 | ~int32 | ~uint32 | ~uint8](c *codec, n protowire.Number, v *T) {
	if c.reading {
		*v = T(c.number[n])
		return
	}
	c.write(n, int64(*v))
}

func (c *codec) write(n protowire.Number, v int64) {
	if v != 0 {
		c.dst = appendVarint(c.dst, n, uint64(v))
	}
}

func (c *codec) flag(n protowire.Number, v *bool) {
	if c.reading {
		*v = c.number[n] != 0
	} else if *v {
		c.write(n, 1)
	}
}

// visibility reads and writes an unspecified visibility as Everyone.
func (c *codec) visibility(n protowire.Number, v *Visibility) {
	if c.reading {
		*v = KnownVisibility(Visibility(c.number[n]))
	} else {
		c.write(n, int64(KnownVisibility(*v)))
	}
}

// name reads or writes the name of a user: the tenant as field n, the name as the next one.
func (c *codec) name(n protowire.Number, v *Name) {
	if c.reading {
		*v = Name{Tenant: string(c.text(n)), Text: string(c.text(n + 1))}
		return
	}
	c.string(n, v.Tenant)
	c.string(n+1, v.Text)
}

func (c *codec) string(n protowire.Number, v string) {
	if v != "" {
		c.dst = protowire.AppendString(protowire.AppendTag(c.dst, n, protowire.BytesType), v)
	}
}

// kinds writes the kinds of a set ascending and packed, and activeKinds those of them that are active.
func (c *codec) kinds(n protowire.Number, v *KindSet) {
	if c.reading {
		*v = c.kindSets[0]
	} else {
		c.kindSet(n, v.Present())
	}
}

func (c *codec) activeKinds(n protowire.Number, v *KindSet) {
	if c.reading {
		*v = v.WithActiveOf(c.kindSets[1])
	} else {
		c.kindSet(n, v.Active())
	}
}

func (c *codec) kindSet(n protowire.Number, v KindSet) {
	if v == 0 {
		return
	}
	c.dst = appendColumn(c.dst, n, uint64(v.Len())) // a kind takes one byte
	for _, k := range Kinds {
		if v&(1<<k) != 0 {
			c.dst = append(c.dst, byte(k))
		}
	}
}

// denies reads what the generated decoder has accepted, in its canonical form.
func (c *codec) denies(n protowire.Number, v *Denies) {
	if c.reading {
		*v = Denies(c.text(n))
		return
	}
	c.string(n, string(*v))
}

// fields are the values of a Transition or Status by field number. Both are flat: numbers, a
// few strings, and the device kinds and the active ones.
type fields struct {
	number   [lastField + 1]uint64
	texts    [maxTexts][]byte // in the order of their numbers
	kindSets [2]KindSet
}

const (
	lastField = 45
	maxTexts  = 6 // that a message has
)

// form lists the fields of a message that are not numbers.
type form struct {
	last  protowire.Number    // greatest field number that this program knows
	kinds [2]protowire.Number // the repeated device kinds, and the active ones
	texts uint64              // bit set of the strings and of message
	// message is the field that is a Denies; 0: none.
	message protowire.Number
}

// slot is the place of the string n in fields.texts.
func (f *form) slot(n protowire.Number) int { return bits.OnesCount64(f.texts & (1<<n - 1)) }

// text is the string n as it was read.
func (c *codec) text(n protowire.Number) []byte { return c.texts[c.form.slot(n)] }

// read takes the fields out of value and checks the version. The generated decoder reads what a
// Protobuf writer does not normally produce, into empty, and its canonical form is read here.
func (c *codec) read(form *form, value []byte, what string, empty func() proto.Message) error {
	c.reading, c.form = true, form
	value, err := Unframed(value)
	if err != nil {
		return err
	}
	if !c.scan(form, value) || form.message != 0 && c.text(form.message) != nil {
		m := empty()
		if err := proto.Unmarshal(value, m); err != nil {
			return &FieldError{Code: "malformed", Field: what, Reason: "is not Protobuf: " + err.Error()}
		}
		m.ProtoReflect().SetUnknown(nil)
		c.fields = fields{}
		if !c.scan(form, encode(m)) {
			return Invalid(what, "cannot be put in canonical form")
		}
	}
	return supported(uint32(c.number[1]))
}

// scan reports false for anything unusual, a malformed value included.
func (f *fields) scan(form *form, value []byte) (usual bool) {
	for len(value) > 0 {
		number, kind, v, text, rest := nextField(value)
		isKinds := number == form.kinds[0] || number == form.kinds[1]
		isNumber := !isKinds && form.texts>>number&1 == 0
		switch {
		case rest == nil:
			return false
		case number > form.last:
		case kind == protowire.VarintType && isNumber:
			f.number[number] = v
		case kind == protowire.BytesType && isKinds:
			set := &f.kindSets[0]
			if number == form.kinds[1] {
				set = &f.kindSets[1]
			}
			for len(text) > 0 {
				k, n := protowire.ConsumeVarint(text)
				if n < 0 {
					return false
				}
				*set, text = set.With(DeviceKind(k)), text[n:]
			}
		case kind == protowire.BytesType && !isNumber && (utf8.Valid(text) || number == form.message):
			f.texts[form.slot(number)] = text
		default:
			return false
		}
		value = rest
	}
	return true
}

// nextField consumes the first field of a message: a number, or bytes. rest is nil if value does
// not begin with such a field; otherwise it is not nil.
func nextField(value []byte) (number protowire.Number, kind protowire.Type, v uint64, bytes, rest []byte) {
	if len(value) > 1 && value[0] < 0x80 && value[0] > 7 && value[1] < 0x80 { // as most are: a byte each
		number, kind, n := protowire.Number(value[0]>>3), protowire.Type(value[0]&7), int(value[1])
		if kind == protowire.VarintType {
			return number, kind, uint64(n), nil, value[2:]
		}
		if value = value[2:]; kind == protowire.BytesType && n <= len(value) {
			return number, kind, 0, value[:n], value[n:]
		}
		return 0, 0, 0, nil, nil
	}
	tag, n := varint(value)
	if n < 0 || tag>>3 == 0 || tag>>3 > uint64(protowire.MaxValidNumber) {
		return 0, 0, 0, nil, nil
	}
	number, kind, value = protowire.Number(tag>>3), protowire.Type(tag&7), value[n:]
	switch kind {
	case protowire.VarintType:
		v, n = varint(value)
	case protowire.BytesType:
		if v, n = varint(value); n > 0 && v <= uint64(len(value)-n) {
			bytes, n = value[n:n+int(v)], n+int(v)
		} else {
			n = -1
		}
		v = 0
	default:
		n = -1
	}
	if n < 0 {
		return 0, 0, 0, nil, nil
	}
	return number, kind, v, bytes, value[n:]
}

// varint is protowire.ConsumeVarint, quick for one byte.
func varint(value []byte) (v uint64, n int) {
	if len(value) > 0 && value[0] < 0x80 {
		return uint64(value[0]), 1
	}
	return protowire.ConsumeVarint(value)
}

// policies holds the policy id that was read last: nearly always the next one is the same.
var policies atomic.Pointer[string]

// policy is text as a string. It allocates only if text differs from the last one.
func policy(text []byte) string {
	if last := policies.Load(); last != nil && *last == string(text) {
		return *last
	}
	s := string(text)
	policies.Store(&s)
	return s
}
