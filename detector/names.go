package detector

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// nameKept is for how long, in log time, the name of a user is known who is gone, or whose heartbeats came
// too late to count. A writer of heartbeats repeats names every 5 minutes and after a silence or a bye that it
// has heard itself: it does not know of the bye that another one wrote.
const nameKept = schemas.Millis(10 * time.Minute / time.Millisecond)

// names are the names of the users of one partition who have a status, in pipelines with --ids
// text. It is a hash table over bytes in chunks: a map of strings would take three times the
// memory. The table is cut into shards, so that no beat waits for more than the growth of one.
//
// Ids are not stored: the id of a name is its hash.
type names struct {
	users  identity.Users
	shards [nameShards]*nameShard
	fresh  []freshName // of the record that is being handled
	// left are the users who are gone: until when their names are known. ends are these instants,
	// ascending; those that left does not have any more do not count.
	left    map[schemas.UserID]schemas.Millis
	ends    []nameEnd
	unsaved map[schemas.UserID]bool // who have a name that no status has
	over    []schemas.UserID        // whose statuses still have a name that is not known any more
	now     schemas.Millis          // that of forget

	capture *nameCapture // under way; nil: none is

	forgets func(_ schemas.UserID, tenant string) // is called before a name is forgotten; may be nil
}

const nameShards = 256

// freshName is a user whose name no status has. first: the name was not known before.
type freshName struct {
	user  schemas.UserID
	first bool
}

// nameEnd is the end of what is known of a user who is gone.
type nameEnd struct {
	at   schemas.Millis
	user schemas.UserID
}

// nameShard holds entries one after the other, none of them in two chunks. Their texts are never
// overwritten, because strings alias them.
type nameShard struct {
	slots   []uint32 // see slotOf; 0: free
	chunks  []*nameChunk
	end     uint32 // where the next entry goes
	used    int    // slots
	removed int    // bytes of entries
}

// nameChunk has a size that the memory allocator rounds to nothing.
type nameChunk [2048]byte

// A build fails here when an entry outgrows a chunk.
const _ = uint(len(nameChunk{}) - maxEntry)

// atBits are the bits of a slot for an offset: 64 MiB of names in a shard, 16 GiB in a partition.
const atBits = 26

// slotOf is the slot of the entry at an offset. Its highest bits are the lowest of part, which home does
// not use, so that a search computes hardly any id but the one that it looks for.
func slotOf(part, at uint32) uint32 { return part<<atBits | (at + 1) }

// offset is where the entry of a slot is.
func offset(slot uint32) uint32 { return slot&(1<<atBits-1) - 1 }

// isOf reports whether a slot may be that of an id.
func isOf(slot, part uint32) bool { return slot>>atBits == part&(1<<(32-atBits)-1) }

func newNames(users identity.Users) *names {
	return &names{users: users, left: map[schemas.UserID]schemas.Millis{}, unsaved: map[schemas.UserID]bool{}}
}

// place mixes id: its shard, and its first slot as a part of 1<<32.
func place(id schemas.UserID) (shard, part uint32) {
	h := uint64(id) * 0x9e3779b97f4a7c15
	return uint32(h >> 56), uint32(h >> 24)
}

func (s *nameShard) home(part uint32) int { return int(uint64(part) * uint64(len(s.slots)) >> 32) }

func (s *nameShard) after(slot int) int {
	if slot++; slot == len(s.slots) {
		return 0
	}
	return slot
}

// entry returns the entry at an offset.
func (s *nameShard) entry(at uint32) nameEntry {
	return nameEntry(s.chunks[at/uint32(len(nameChunk{}))][at%uint32(len(nameChunk{})):]).sized()
}

// add adds a copy of an entry, and returns its offset.
func (s *nameShard) add(e nameEntry) uint32 {
	size, chunk := uint32(len(e)), uint32(len(nameChunk{}))
	if rest := uint32(len(s.chunks))*chunk - s.end; rest < size {
		s.end += rest
		s.chunks = append(s.chunks, new(nameChunk))
	}
	at := s.end
	copy(s.chunks[at/chunk][at%chunk:], e)
	s.end += size
	return at
}

// size are the bytes of the entries, with what is free after them in their chunks.
func (s *nameShard) size() int { return int(s.end) }

func (n *names) idOf(e nameEntry) schemas.UserID {
	tenant, text := e.parts()
	if !e.isPacked() {
		return n.users.ID(tenant, text)
	}
	var space [uuidText]byte
	unpackUUID(&space, text)
	return n.users.ID(tenant, unsafe.String(&space[0], len(space)))
}

// find returns the slot of id in its shard and the entry; nil if there is none.
func (n *names) find(id schemas.UserID) (*nameShard, int, nameEntry) {
	shard, part := place(id)
	s := n.shards[shard]
	if s == nil {
		return nil, 0, nil
	}
	for i := s.home(part); s.slots[i] != 0; i = s.after(i) {
		if !isOf(s.slots[i], part) {
			continue
		}
		if e := s.entry(offset(s.slots[i])); n.idOf(e) == id {
			return s, i, e
		}
	}
	return s, 0, nil
}

// has reports whether a user who is here is known under this name. It computes no hash: no other id has the name.
func (n *names) has(id schemas.UserID, name schemas.Name) bool {
	shard, part := place(id)
	s := n.shards[shard]
	if s == nil {
		return false
	}
	for i := s.home(part); s.slots[i] != 0; i = s.after(i) {
		if isOf(s.slots[i], part) && s.entry(offset(s.slots[i])).is(name) {
			_, gone := n.left[id]
			return !gone
		}
	}
	return false
}

// of is the name of a user; the zero value if it is not known. It stays valid.
func (n *names) of(id schemas.UserID) schemas.Name {
	if _, _, e := n.find(id); e != nil {
		return e.name()
	}
	return schemas.Name{}
}

// tenantOf is the tenant of a user whose name is known. It does not allocate.
func (n *names) tenantOf(id schemas.UserID) (tenant string, known bool) {
	if _, _, e := n.find(id); e != nil {
		return e.tenant(), true
	}
	return "", false
}

// put takes the name of a user who has none. id must be the id of the name.
func (n *names) put(id schemas.UserID, name schemas.Name) {
	shard, part := place(id)
	n.keep(shard)
	s := n.shards[shard]
	if s == nil {
		s = &nameShard{slots: make([]uint32, 8)}
		n.shards[shard] = s
	}
	if (s.used+1)*8 > len(s.slots)*7 {
		n.rebuild(s, len(s.slots)*9/8+4, false)
	}
	var space [maxEntry]byte
	s.insert(part, s.add(appendEntry(space[:0], name)))
}

func (s *nameShard) insert(part, at uint32) {
	i := s.home(part)
	for s.slots[i] != 0 {
		i = s.after(i)
	}
	s.slots[i] = slotOf(part, at)
	s.used++
}

// remove forgets the name of a user.
func (n *names) remove(id schemas.UserID) {
	delete(n.left, id)
	delete(n.unsaved, id)
	s, gap, e := n.find(id)
	if e == nil {
		return
	}
	shard, _ := place(id)
	n.keep(shard)
	if n.forgets != nil {
		n.forgets(id, e.tenant())
	}
	s.used--
	s.removed += len(e)
	if s.used == 0 {
		n.shards[shard] = nil
		return
	}
	size := len(s.slots)
	for i := s.after(gap); s.slots[i] != 0; i = s.after(i) {
		_, part := place(n.idOf(s.entry(offset(s.slots[i]))))
		if home := s.home(part); (i-home+size)%size >= (i-gap+size)%size {
			s.slots[gap], gap = s.slots[i], i
		}
	}
	s.slots[gap] = 0
	if s.removed > s.size()/4 {
		n.rebuild(s, max(8, s.used*5/4), true)
	}
}

// rebuild gives s at least so many slots and, if compact, drops what was removed.
func (n *names) rebuild(s *nameShard, slots int, compact bool) {
	old := *s
	s.slots, s.used = slices.Grow([]uint32(nil), slots), 0
	s.slots = s.slots[:cap(s.slots)] // the memory allocator has rounded up
	if compact {
		s.chunks, s.end, s.removed = nil, 0, 0
	}
	for _, slot := range old.slots {
		if slot == 0 {
			continue
		}
		at := offset(slot)
		e := old.entry(at)
		_, part := place(n.idOf(e))
		if compact {
			at = s.add(e)
		}
		s.insert(part, at)
	}
}

// each calls do for the users of some tenants.
func (n *names) each(some func(tenant string) bool, do func(_ schemas.UserID, tenant string)) {
	for _, s := range n.shards {
		if s == nil {
			continue
		}
		for _, slot := range s.slots {
			if slot == 0 {
				continue
			}
			if e := s.entry(offset(slot)); some(e.tenant()) {
				do(n.idOf(e), e.tenant())
			}
		}
	}
}

// bytes is the memory of the table.
func (n *names) bytes() int {
	const header = 64
	sum := 8 * nameShards
	for _, s := range n.shards {
		if s != nil {
			sum += header + 4*cap(s.slots) + len(s.chunks)*len(nameChunk{}) + 8*cap(s.chunks)
		}
	}
	return sum
}

// learn takes the name that a record has for a user, unless another one is known. It returns the entry of
// the name known so far; nil: it was not known. It does not allocate when it was.
func (n *names) learn(id schemas.UserID, name schemas.Name) (known nameEntry) {
	_, _, known = n.find(id)
	_, gone := n.left[id]
	if known != nil && (!gone || !known.is(name)) {
		return known
	}
	delete(n.left, id)
	if known == nil {
		n.put(id, name)
	}
	n.unsaved[id] = true
	n.fresh = append(n.fresh, freshName{id, known == nil})
	return known
}

// name puts the user's name into a status that is about to be written at a log time. If it says nothing of
// the user's presence, the name stays known for a while.
func (n *names) name(s *schemas.Status, now schemas.Millis) {
	_, _, e := n.find(s.User)
	switch {
	case e == nil:
		if len(n.over) > 0 { // this status has no name
			n.over = slices.DeleteFunc(n.over, func(over schemas.UserID) bool { return over == s.User })
		}
		return
	case !s.Absent():
		delete(n.left, s.User)
	default:
		if s.NamedUntil = n.left[s.User]; s.NamedUntil == 0 {
			s.NamedUntil = now + nameKept
			n.leave(s.User, s.NamedUntil)
		}
		if s.ShownAt == 0 && s.ErasedVersion == 0 {
			*s = schemas.Status{User: s.User, State: s.State, Visibility: s.Visibility, Version: s.Version, NamedUntil: s.NamedUntil}
		}
	}
	delete(n.unsaved, s.User)
	s.Name = e.name()
}

// leave notes that a user is gone, whose name is known until an instant. Instants must not go back.
func (n *names) leave(id schemas.UserID, until schemas.Millis) {
	n.left[id] = until
	n.ends = append(n.ends, nameEnd{until, id})
}

// inOrder brings ends in the order in which they count, each once.
func inOrder(ends []nameEnd) []nameEnd {
	slices.SortFunc(ends, func(a, b nameEnd) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.user, b.user)) })
	return slices.Compact(ends)
}

// forget forgets the names of users who are gone whose time is over.
func (n *names) forget(now schemas.Millis) {
	n.now = now
	due := 0
	for due < len(n.ends) && n.ends[due].at <= now {
		due++
	}
	if due == 0 {
		return
	}
	for _, end := range inOrder(n.ends[:due:due]) {
		if n.left[end.user] == end.at {
			n.remove(end.user)
			n.over = append(n.over, end.user)
		}
	}
	n.ends = n.ends[due:]
}

// nameCapture writes a table of names while names come and go.
type nameCapture struct {
	count  int
	next   int                    // shard
	kept   [nameShards]*nameShard // as they were, of those that changed
	isKept [nameShards]bool
}

// beginCapture begins to write the table as it is now.
func (n *names) beginCapture() {
	n.capture = &nameCapture{}
	for _, s := range n.shards {
		if s != nil {
			n.capture.count += s.used
		}
	}
}

// captureMore writes shards with about so many names, and reports whether all are written.
func (n *names) captureMore(s *snapshot.Codec, names int) (complete bool) {
	c := n.capture
	for ; c.next < nameShards && names > 0; c.next++ {
		shard := n.shards[c.next]
		if c.isKept[c.next] {
			shard = c.kept[c.next]
		}
		if shard == nil {
			continue
		}
		for _, e := range shard.all(nil) {
			e.write(s)
		}
		names -= shard.used
		c.kept[c.next] = nil
	}
	if c.next < nameShards {
		return false
	}
	n.capture = nil
	return true
}

// keep keeps a shard as it is, because it is about to change. The texts of entries never do.
func (n *names) keep(shard uint32) {
	c := n.capture
	if c == nil || int(shard) < c.next || c.isKept[shard] {
		return
	}
	c.isKept[shard] = true
	if s := n.shards[shard]; s != nil {
		copied := *s
		copied.slots, copied.chunks = slices.Clone(s.slots), slices.Clone(s.chunks)
		c.kept[shard] = &copied
	}
}
