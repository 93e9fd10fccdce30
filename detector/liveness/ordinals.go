package liveness

import "github.com/stillhere/stillhere/schemas"

// ordinals count the transitions that the record being applied has caused, by user. Each slot has
// the number of its record, so that all slots expire at once with the next record.
type ordinals struct {
	key    uint64
	slots  []ordinal // a power of two, or none; at most half of them are used
	used   int
	record uint32
}

type ordinal struct {
	user   schemas.UserID
	record uint32
	n      uint32
}

const (
	minOrdinals = 1 << 6
	maxOrdinals = 1 << 15 // a larger table is dropped after the record
)

// of is how many transitions of the user the record has caused.
func (o *ordinals) of(user schemas.UserID) int {
	if o.used == 0 {
		return 0
	}
	if s := o.slot(user); s.record == o.record {
		return int(s.n)
	}
	return 0
}

// take returns of, and counts one more.
func (o *ordinals) take(user schemas.UserID) int {
	if o.used >= len(o.slots)/2 {
		o.grow()
	}
	s := o.slot(user)
	if s.record != o.record {
		*s = ordinal{user: user, record: o.record}
		o.used++
	}
	s.n++
	return int(s.n) - 1
}

// slot is the slot of the user, or a free one for it.
func (o *ordinals) slot(user schemas.UserID) *ordinal {
	mask := uint64(len(o.slots) - 1)
	for i := uint64(user) * o.key >> 32 & mask; ; i = (i + 1) & mask {
		if s := &o.slots[i]; s.record != o.record || s.user == user {
			return s
		}
	}
}

func (o *ordinals) grow() {
	old, record := o.slots, o.record
	o.slots, o.record = make([]ordinal, max(minOrdinals, 2*len(old))), 1
	for i := range old {
		if old[i].record == record {
			s := o.slot(old[i].user)
			*s = ordinal{user: old[i].user, record: o.record, n: old[i].n}
		}
	}
}

// forget expires all slots.
func (o *ordinals) forget() {
	if o.used == 0 {
		return
	}
	o.used = 0
	if o.record++; o.record == 0 || len(o.slots) > maxOrdinals {
		*o = ordinals{key: o.key}
	}
}
