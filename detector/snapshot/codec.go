// Package snapshot writes the state of a partition as bytes and reads it again. Equal states give equal
// bytes: whoever walks over a state does it in an order that does not depend on its layout in memory.
package snapshot

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// Codec writes a state, or reads what another one has written. One walk over the state serves both, so
// what is written is what is read.
type Codec struct {
	Reading bool
	Bytes   []byte // what was written, or what is left to read
	failed  bool
}

// Done returns whether all was read, and nothing else was there.
func (s *Codec) Done() bool { return !s.failed && len(s.Bytes) == 0 }

// Failed reports whether what is read is no such state. Then all values are zero.
func (s *Codec) Failed() bool { return s.failed }

// Fail ends the reading: all that follows is zero.
func (s *Codec) Fail() { s.failed, s.Bytes = true, nil }

// Numbers walks over several numbers.
func Numbers[N ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](s *Codec, all ...*N) {
	for _, n := range all {
		Number(s, n)
	}
}

// Number is a whole number, as a zigzag varint.
func Number[N ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](s *Codec, n *N) {
	if !s.Reading {
		s.Bytes = binary.AppendVarint(s.Bytes, int64(*n))
		return
	}
	var value int64
	var length int
	if len(s.Bytes) > 0 && s.Bytes[0] < 0x80 { // most numbers are small
		b := s.Bytes[0]
		value, length = int64(b>>1)^-int64(b&1), 1
	} else {
		value, length = binary.Varint(s.Bytes)
	}
	if length <= 0 || int64(N(value)) != value {
		s.Fail()
		return
	}
	*n, s.Bytes = N(value), s.Bytes[length:]
}

// Flag is true or false.
func (s *Codec) Flag(set *bool) {
	n := 0
	if *set {
		n = 1
	}
	Number(s, &n)
	*set = n != 0
}

// Text is a string.
func (s *Codec) Text(t *string) {
	n := s.Length(len(*t))
	if !s.Reading {
		s.Bytes = append(s.Bytes, *t...)
		return
	}
	*t, s.Bytes = string(s.Bytes[:n]), s.Bytes[n:]
}

// Length is how many elements follow, each of at least a byte.
func (s *Codec) Length(n int) int {
	if Number(s, &n); s.Reading && (n < 0 || n > len(s.Bytes)) {
		s.Fail()
		return 0
	}
	return n
}

// List is a slice.
func List[T any](s *Codec, all *[]T, each func(*T)) {
	n := s.Length(len(*all))
	if s.Reading {
		*all = make([]T, n)
	}
	for i := range *all {
		if s.failed {
			return
		}
		each(&(*all)[i])
	}
}

// Table is a map, in the order of its keys.
func Table[K cmp.Ordered, V any](s *Codec, all map[K]V, each func(*K, *V)) {
	keys := slices.Sorted(maps.Keys(all))
	for i := range s.Length(len(keys)) {
		var key K
		var value V
		if !s.Reading {
			key, value = keys[i], all[keys[i]]
		}
		if each(&key, &value); s.failed {
			return
		}
		all[key] = value
	}
}
