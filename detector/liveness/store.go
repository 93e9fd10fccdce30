package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// hot is the part of an entry that a repeated beat reads and writes.
type hot struct {
	user   schemas.UserID // 0: the entry is free
	seen   stamp          // the device's newest report; without a device, that of the last one
	active stamp          // the device's last touch
	device schemas.DeviceID
	life   uint16 // of the gateway that the newest report came through, 0 = none
	flags  flags
}

// cold is the rest of an entry.
type cold struct {
	armed      stamp  // presence time of the user's timer
	lastActive stamp  // of the newest published transition, or of a device that left
	since      uint32 // stamp of the last change of state; with flagOld, a number of Machine.olds
}

// flags are packed fields of an entry.
type flags uint16

const (
	flagState   flags = 3       // schemas.State
	flagKinds   flags = 31 << 2 // schemas.KindSet >> 1
	flagHidden  flags = 1 << 7
	flagKind    flags = 7 << 8  // schemas.DeviceKind of the device
	flagPresent flags = 1 << 11 // the device is present
	flagBye     flags = 1 << 12 // the device said bye, which is remembered
	flagMany    flags = 1 << 13 // the user does not fit: see Machine.many
	flagOld     flags = 1 << 14 // some of its times are before the base: see Machine.olds
	flagTenant  flags = 1 << 15 // judged by the policy of a tenant: see store.tenants

	flagHeld = flagPresent | flagBye // both: its connection is open

	shiftKinds = 2
	shiftKind  = 8
)

// A build fails here when schemas.Kinds outgrows flagKinds (5 bits) or flagKind (3 bits).
const (
	_ = uint(5 - len(schemas.Kinds))
	_ = uint(7 - len(schemas.Kinds))
)

func (f flags) state() schemas.State     { return schemas.State(f & flagState) }
func (f flags) kinds() schemas.KindSet   { return schemas.KindSet(f&flagKinds>>shiftKinds) << 1 }
func (f flags) kind() schemas.DeviceKind { return schemas.DeviceKind(f & flagKind >> shiftKind) }

// chunkEntries makes a chunk 72 KiB, a multiple of the memory allocator's pages.
const chunkEntries = 2048

// store keeps entries in chunks, so that growth moves nothing. Holes are filled from the end, a few
// at a time, so that memory is returned when users leave.
type store struct {
	chunks []*chunk
	used   []int // live entries of each chunk
	// tenants are the numbers of the tenants of entries with flagTenant, by chunk; nil where there was none.
	tenants []*[chunkEntries]uint8
	// connections are those of the devices of entries, by chunk; nil where there was none.
	connections []*[chunkEntries]schemas.ConnectionID
	live        int
	free        []uint32 // free entries, and some that are in use again
	holes       []uint32 // of those, where compaction moves users to
}

type chunk struct {
	hot  [chunkEntries]hot
	cold [chunkEntries]cold
}

func (s *store) hot(e uint32) *hot   { return &s.chunks[e/chunkEntries].hot[e%chunkEntries] }
func (s *store) cold(e uint32) *cold { return &s.chunks[e/chunkEntries].cold[e%chunkEntries] }

func (s *store) tenant(e uint32) uint8 { return s.tenants[e/chunkEntries][e%chunkEntries] }

func (s *store) setTenant(e uint32, tenant uint8) { setOf(&s.tenants, e, tenant) }

// connection is that of the device of an entry; 0: none.
func (s *store) connection(e uint32) schemas.ConnectionID {
	if c := e / chunkEntries; int(c) < len(s.connections) && s.connections[c] != nil {
		return s.connections[c][e%chunkEntries]
	}
	return 0
}

func (s *store) setConnection(e uint32, c schemas.ConnectionID) {
	if c != s.connection(e) {
		setOf(&s.connections, e, c)
	}
}

// setOf sets what only some entries have.
func setOf[V any](of *[]*[chunkEntries]V, e uint32, v V) {
	c := int(e / chunkEntries)
	if c >= len(*of) {
		*of = append(*of, make([]*[chunkEntries]V, c+1-len(*of))...)
	}
	if (*of)[c] == nil {
		(*of)[c] = new([chunkEntries]V)
	}
	(*of)[c][e%chunkEntries] = v
}

// bytesOf is the memory of what only some entries have.
func bytesOf[V any](of []*[chunkEntries]V, each int) int {
	n := 8 * len(of)
	for _, c := range of {
		if c != nil {
			n += each * chunkEntries
		}
	}
	return n
}

// trimmed is of without what is behind n chunks.
func trimmed[V any](of []*[chunkEntries]V, n int) []*[chunkEntries]V {
	n = min(n, len(of))
	clear(of[n:])
	return of[:n]
}

// end is one more than the greatest possible entry number.
func (s *store) end() uint32 { return uint32(len(s.chunks) * chunkEntries) }

// add makes a free entry live, and returns it.
func (s *store) add(id schemas.UserID) uint32 {
	for {
		if len(s.free) == 0 && s.live < int(s.end()) {
			s.free = s.find(s.free, s.end())
		}
		if len(s.free) == 0 {
			s.grow()
		}
		e := s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
		if e < s.end() && s.hot(e).user == 0 {
			*s.hot(e), *s.cold(e) = hot{user: id}, cold{}
			s.used[e/chunkEntries]++
			s.live++
			return e
		}
	}
}

func (s *store) grow() {
	first := s.end()
	s.chunks, s.used = append(s.chunks, new(chunk)), append(s.used, 0)
	for e := first + chunkEntries; e > first; e-- {
		s.free = append(s.free, e-1)
	}
}

// remove frees an entry.
func (s *store) remove(e uint32) {
	*s.hot(e) = hot{}
	s.used[e/chunkEntries]--
	s.live--
	s.free = append(s.free, e)
}

// trim returns the memory of empty chunks at the end. Entry numbers that were found before it are
// no longer valid.
func (s *store) trim() {
	n := len(s.chunks)
	for n > 0 && s.used[n-1] == 0 {
		n--
		s.chunks[n] = nil
	}
	s.chunks, s.used = s.chunks[:n], s.used[:n]
	s.tenants, s.connections = trimmed(s.tenants, n), trimmed(s.connections, n)
	if len(s.free) > chunkEntries && len(s.free) > int(s.end()) {
		s.free = nil // most are stale: free entries are searched for when needed
	} else if cap(s.free) > chunkEntries && cap(s.free) > 2*int(s.end()) {
		s.free = slices.Clone(s.free)
	}
}

// sparse reports whether so many entries are free that moving some is worth its cost.
func (s *store) sparse() bool {
	return len(s.chunks) > 1 && s.live < len(s.chunks)*chunkEntries*3/4
}

// hole returns a free entry before the last chunk; false if there is none. Entries near the start
// come first, so that no user is moved repeatedly.
func (s *store) hole() (uint32, bool) {
	for {
		if len(s.holes) == 0 {
			s.holes = s.find(s.holes, s.end()-chunkEntries)
		}
		if len(s.holes) == 0 {
			return 0, false
		}
		e := s.holes[len(s.holes)-1]
		s.holes = s.holes[:len(s.holes)-1]
		if e < s.end()-chunkEntries && s.hot(e).user == 0 {
			return e, true
		}
	}
}

// find appends about chunkEntries free entries before limit to dst, from the start on.
func (s *store) find(dst []uint32, limit uint32) []uint32 {
	for c, chunk := range s.chunks {
		if uint32(c)*chunkEntries >= limit || len(dst) > chunkEntries {
			break
		}
		if s.used[c] == chunkEntries {
			continue
		}
		for i := range chunk.hot {
			if chunk.hot[i].user == 0 {
				dst = append(dst, uint32(c*chunkEntries+i))
			}
		}
	}
	return dst
}

// bytes is the memory of the store.
func (s *store) bytes() int {
	const entry = 24 + 12
	return len(s.chunks)*(chunkEntries*entry+8+8) + bytesOf(s.tenants, 1) + bytesOf(s.connections, 4) +
		4*(cap(s.free)+cap(s.holes))
}
