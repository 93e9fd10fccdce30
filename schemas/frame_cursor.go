package schemas

import (
	"encoding/binary"
	"math"

	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// Cursor walks the beats of a frame. Copy it to remember a position.
type Cursor struct {
	frame     *Frame
	row       int
	age, idle int // where the next varints begin
}

// Beats is a cursor before the first beat.
func (f *Frame) Beats() Cursor { return Cursor{frame: f} }

// User is the user of row i.
func (f *Frame) User(i int) UserID {
	return UserID(binary.LittleEndian.Uint64(f.users[8*i:]))
}

// Next reads the next beat; false when there is none.
func (c *Cursor) Next(beat *Beat) bool {
	f, i := c.frame, c.row
	if i >= f.rows {
		return false
	}
	c.row++
	beat.User = UserID(binary.LittleEndian.Uint64(f.users[8*i:]))
	beat.Device = DeviceID(binary.LittleEndian.Uint32(f.devices[4*i:]))
	beat.Kind, beat.Bye, beat.Lost, beat.Age, beat.Idle, beat.Connection = Other, false, false, 0, 0, 0
	if len(f.kinds) > 0 && f.kinds[i] != 0 {
		beat.Kind = DeviceKind(f.kinds[i])
	}
	if len(f.beats) > 0 {
		beat.Bye, beat.Lost = f.beats[i] == byte(pb.BeatKind_BEAT_KIND_BYE), f.beats[i] == byte(lastBeatKind)
	}
	if len(f.ages) > 0 {
		beat.Age, c.age = varintAt(f.ages, c.age)
	}
	if len(f.idles) > 0 {
		beat.Idle, c.idle = varintAt(f.idles, c.idle)
	}
	if len(f.connections) > 0 {
		beat.Connection = ConnectionID(binary.LittleEndian.Uint32(f.connections[4*i:]))
	}
	return true
}

// varintAt reads a varint that shortVarints has accepted.
func varintAt(b []byte, at int) (Millis, int) {
	if b[at] < 0x80 {
		return Millis(b[at]), at + 1
	}
	v := uint64(b[at] & 0x7f)
	for shift := 7; ; shift += 7 {
		at++
		v |= uint64(b[at]&0x7f) << shift
		if b[at] < 0x80 {
			return Millis(v), at + 1
		}
	}
}

func allBelow(b []byte, limit byte) bool {
	for _, v := range b {
		if v >= limit {
			return false
		}
	}
	return true
}

// shortVarints reports whether b consists of complete varints that fit in 32 bits.
func shortVarints(b []byte) bool {
	length := 0
	for _, v := range b {
		length++
		if v < 0x80 {
			if length == 5 && v > math.MaxUint32>>28 {
				return false
			}
			length = 0
		} else if length == 5 {
			return false
		}
	}
	return length == 0
}

func countVarints(b []byte) int {
	n := 0
	for _, v := range b {
		n += int(^v >> 7)
	}
	return n
}

// firstAbove is the index of the first varint of b above limit, -1 if none.
func firstAbove(b []byte, limit uint64) int {
	for i, at := 0, 0; at < len(b); i++ {
		var v Millis
		v, at = varintAt(b, at)
		if uint64(v) > limit {
			return i
		}
	}
	return -1
}
