package liveness

import (
	"math/bits"

	"github.com/stillhere/stillhere/schemas"
)

// index finds the entry of a user by extendible hashing. A directory, addressed by the top bits of
// the hash, points to segments with linear probing. A full segment grows by half, and is split in
// two when it is full again; a nearly empty one is joined with its buddy. So no beat waits for more
// than one segment's worth of work, whatever the number of users, and at least 57 % of the slots
// are in use while the number of users grows.
//
// A slot is 0, left, or an entry number plus one in its low 26 bits, with 6 bits of the hash above
// them, so that most slots of other users are skipped without a look at their entries. That bounds
// the users of one partition at 67 million.
type index struct {
	key       uint64 // of the hash
	directory []*segment
	depth     uint // the directory has 1<<depth elements
	segments  int
}

type segment struct {
	depth uint32   // how many top bits of the hash its users share
	used  uint32   // slots with an entry
	gaps  uint32   // slots that are left
	slots []uint32 // smallSegment or largeSegment of them
}

const (
	smallSegment = 1024 // slots
	largeSegment = smallSegment * 3 / 2
	segmentLow   = smallSegment * 35 / 100 // two buddies join at this sum

	entryBits = 26
	entryMask = 1<<entryBits - 1
	maxUsers  = entryMask - 1

	// left marks the slot of a removed user behind which probes must continue. No entry has this
	// number.
	left = entryMask
)

// none is no entry.
const none = ^uint32(0)

func newIndex(key uint64) index {
	return index{key: key, directory: []*segment{newSegment(0)}, segments: 1}
}

// reserve makes an empty index as large as so many users need, so that none of its segments grows meanwhile.
func (x *index) reserve(users int) {
	for x.depth = 0; users>>x.depth > smallSegment*3/4; x.depth++ {
	}
	x.segments = 1 << x.depth
	x.directory = make([]*segment, x.segments)
	for i := range x.directory {
		x.directory[i] = newSegment(uint32(x.depth))
	}
}

func newSegment(depth uint32) *segment {
	return &segment{depth: depth, slots: make([]uint32, smallSegment)}
}

// full reports whether one more user would make probes long.
func (seg *segment) full() bool { return int(seg.used+seg.gaps) >= len(seg.slots)*85/100 }

// hash mixes a user id well enough that its top bits choose a segment and lower ones a slot (the
// finalizer of SplitMix64, Steele et al. 2014). Without the secret key, chosen user ids could all
// fall into one segment, and the directory would double for every thousand of them.
func (x *index) hash(id schemas.UserID) uint64 {
	h := uint64(id) ^ x.key
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return h
}

func (x *index) segmentOf(h uint64) *segment { return x.directory[h>>1>>(63-x.depth)] }

// home is the first slot of the hash. tag is the part of the hash in a slot.
func (seg *segment) home(h uint64) uint32 {
	return uint32(uint64(uint32(h)) * uint64(len(seg.slots)) >> 32)
}

func tag(h uint64) uint32 { return uint32(h) << entryBits }

// after is the slot that is probed after i.
func (seg *segment) after(i uint32) uint32 {
	if i++; i == uint32(len(seg.slots)) {
		return 0
	}
	return i
}

// before is the slot that is probed before i.
func (seg *segment) before(i uint32) uint32 {
	if i == 0 {
		i = uint32(len(seg.slots))
	}
	return i - 1
}

// find returns the entry of id, or none.
func (x *index) find(s *store, h uint64, id schemas.UserID) uint32 {
	seg, t := x.segmentOf(h), tag(h)
	for i := seg.home(h); ; i = seg.after(i) {
		slot := seg.slots[i]
		if slot == 0 {
			return none
		}
		if slot&^entryMask == t && slot != left {
			if e := slot&entryMask - 1; s.hot(e).user == id {
				return e
			}
		}
	}
}

// prefetch loads the slot where a search for h begins. Searches for many users are faster if all first
// slots have been loaded: the loads overlap. The caller must use the result, or the compiler
// removes the load.
func (x *index) prefetch(h uint64) uint32 {
	seg := x.segmentOf(h)
	return seg.slots[seg.home(h)]
}

// guess returns the first entry whose slot has the tag of h: most often that of the user. It
// returns none only if the user has no entry.
func (x *index) guess(h uint64) uint32 {
	seg, t := x.segmentOf(h), tag(h)
	for i := seg.home(h); ; i = seg.after(i) {
		slot := seg.slots[i]
		if slot == 0 {
			return none
		}
		if slot&^entryMask == t && slot != left {
			return slot&entryMask - 1
		}
	}
}

// insert adds entry e under h. The user must not be in the index.
func (x *index) insert(s *store, h uint64, e uint32) {
	seg := x.segmentOf(h)
	for seg.full() {
		switch {
		case seg.gaps > seg.used/8:
			x.resize(s, seg, len(seg.slots)) // without the gaps
		case len(seg.slots) == smallSegment:
			x.resize(s, seg, largeSegment)
		default:
			x.split(s, seg, h)
			seg = x.segmentOf(h)
		}
	}
	seg.put(h, e)
}

func (seg *segment) put(h uint64, e uint32) {
	i := seg.home(h)
	for seg.slots[i] != 0 && seg.slots[i] != left {
		i = seg.after(i)
	}
	if seg.slots[i] == left {
		seg.gaps--
	}
	seg.slots[i] = tag(h) | (e + 1)
	seg.used++
}

// resize gives seg another number of slots.
func (x *index) resize(s *store, seg *segment, slots int) {
	old := seg.slots
	seg.slots, seg.used, seg.gaps = make([]uint32, slots), 0, 0
	for _, slot := range old {
		if slot != 0 && slot != left {
			e := slot&entryMask - 1
			seg.put(x.hash(s.hot(e).user), e)
		}
	}
}

// slotOf returns the slot that holds entry e under h.
func (seg *segment) slotOf(h uint64, e uint32) uint32 {
	want := tag(h) | (e + 1)
	for i := seg.home(h); ; i = seg.after(i) {
		if seg.slots[i] == want {
			return i
		}
	}
}

// move makes the slot of entry from point to entry to.
func (x *index) move(h uint64, from, to uint32) {
	seg := x.segmentOf(h)
	seg.slots[seg.slotOf(h, from)] = tag(h) | (to + 1)
}

// remove removes entry e. If probes must continue behind its slot, it leaves a gap: closing the gap
// would need the entries of all users that follow. Gaps disappear when the segment is rewritten, at
// the latest when it would be full.
func (x *index) remove(s *store, h uint64, e uint32) {
	seg := x.segmentOf(h)
	i := seg.slotOf(h, e)
	seg.used--
	if seg.slots[seg.after(i)] != 0 {
		seg.slots[i] = left
		seg.gaps++
	} else {
		seg.slots[i] = 0
		for i = seg.before(i); seg.slots[i] == left; i = seg.before(i) {
			seg.slots[i] = 0
			seg.gaps--
		}
	}
	switch {
	case len(seg.slots) == largeSegment && seg.used < smallSegment/2:
		x.resize(s, seg, smallSegment)
	case seg.used < segmentLow/2 && seg.depth > 0:
		x.join(s, seg, h)
	}
}

// bytes is the memory of the index.
func (x *index) bytes() int {
	const word, header = bits.UintSize / 8, 40
	sum := len(x.directory) * word
	for i, seg := range x.directory {
		if i == 0 || x.directory[i-1] != seg {
			sum += header + 4*len(seg.slots)
		}
	}
	return sum
}
