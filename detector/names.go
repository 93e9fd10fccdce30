package detector

import (
	"unsafe"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// names are the names of the users of one partition who have a status, in pipelines with --ids
// text. It is a hash table over bytes in large arrays: a map of strings would take three times the
// memory. The table is cut into shards, so that no beat waits for more than the growth of one.
//
// Ids are not stored: the id of a name is its hash.
type names struct {
	users   identity.Users
	shards  [nameShards]*nameShard
	fresh   []schemas.UserID // named first by the record that is being handled
	leaving []schemas.UserID // without status since that record, unless they have one again
	// collided are users whose id two names have: they stay hidden until they are erased. Their
	// statuses say so. The id is a keyed hash, so hardly any pipeline ever has one.
	collided map[schemas.UserID]struct{}

	forgets func(schemas.UserID, schemas.Name) // is called before a name is forgotten; may be nil
	// awaited are those who were erased: they stay hidden until a name comes. Beats without one may
	// be of either user.
	awaited map[schemas.UserID]struct{}
}

const nameShards = 1024

// nameShard holds entries one after the other. Their texts are never overwritten, because strings
// alias them.
type nameShard struct {
	slots   []uint32 // see slotOf; 0: free
	entries []byte
	used    int // slots
	removed int // bytes of entries
}

// An entry is the length of the tenant, that of the text less one, the tenant and the text. The
// highest bits of the lengths are flags.
const (
	entryHead   = 2
	flagUnsaved = 0x80 // of the first byte: no status with the name has been written
	flagLeaving = 0x80 // of the second
)

// atBits are the bits of a slot for an offset: 64 MiB of names in a shard, 64 GiB in a partition.
const atBits = 26

// slotOf is the slot of the entry at an offset. Its highest bits are the lowest of part, which home does
// not use, so that a search computes hardly any id but the one that it looks for.
func slotOf(part, at uint32) uint32 { return part<<atBits | (at + 1) }

// offset is where the entry of a slot is.
func offset(slot uint32) uint32 { return slot&(1<<atBits-1) - 1 }

// isOf reports whether a slot may be that of an id.
func isOf(slot, part uint32) bool { return slot>>atBits == part&(1<<(32-atBits)-1) }

func newNames(users identity.Users) *names {
	return &names{users: users, collided: map[schemas.UserID]struct{}{}, awaited: map[schemas.UserID]struct{}{}}
}

// isAwaited reports whether the user is hidden until a name comes.
func (n *names) isAwaited(id schemas.UserID) bool {
	if len(n.awaited) == 0 {
		return false
	}
	_, found := n.awaited[id]
	return found
}

// isCollided reports whether two names have the id.
func (n *names) isCollided(id schemas.UserID) bool {
	if len(n.collided) == 0 {
		return false
	}
	_, found := n.collided[id]
	return found
}

// place mixes id: its shard, and its first slot as a part of 1<<32.
func place(id schemas.UserID) (shard, part uint32) {
	h := uint64(id) * 0x9e3779b97f4a7c15
	return uint32(h >> 54), uint32(h >> 22)
}

func (s *nameShard) home(part uint32) int { return int(uint64(part) * uint64(len(s.slots)) >> 32) }

func (s *nameShard) after(slot int) int {
	if slot++; slot == len(s.slots) {
		return 0
	}
	return slot
}

// entry returns the entry at an offset.
func (s *nameShard) entry(at uint32) []byte {
	e := s.entries[at:]
	return e[:entryHead+int(e[0]&^flagUnsaved)+int(e[1]&^flagLeaving)+1]
}

func nameOf(entry []byte) schemas.Name {
	texts := unsafe.String(&entry[entryHead], len(entry)-entryHead)
	tenant := int(entry[0] &^ flagUnsaved)
	return schemas.Name{Tenant: texts[:tenant], Text: texts[tenant:]}
}

func (n *names) idOf(entry []byte) schemas.UserID {
	name := nameOf(entry)
	return n.users.ID(name.Tenant, name.Text)
}

// find returns the slot of id in its shard and the entry; nil if there is none.
func (n *names) find(id schemas.UserID) (*nameShard, int, []byte) {
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

// of is the name of a user; the zero value if it is not known. It stays valid.
func (n *names) of(id schemas.UserID) schemas.Name {
	if _, _, e := n.find(id); e != nil {
		return nameOf(e)
	}
	return schemas.Name{}
}

// put takes the name of a user who has none. id must be the id of the name.
func (n *names) put(id schemas.UserID, name schemas.Name) {
	shard, part := place(id)
	s := n.shards[shard]
	if s == nil {
		s = &nameShard{slots: make([]uint32, 8)}
		n.shards[shard] = s
	}
	if (s.used+1)*20 > len(s.slots)*17 {
		n.rebuild(s, len(s.slots)*5/4, 0)
	}
	size := entryHead + len(name.Tenant) + len(name.Text)
	if cap(s.entries)-len(s.entries) < size {
		grown := make([]byte, len(s.entries), len(s.entries)*9/8+size+64)
		copy(grown, s.entries)
		s.entries = grown
	}
	s.insert(part, uint32(len(s.entries)))
	s.entries = append(s.entries, byte(len(name.Tenant)), byte(len(name.Text)-1))
	s.entries = append(append(s.entries, name.Tenant...), name.Text...)
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
	s, gap, e := n.find(id)
	if e == nil {
		return
	}
	if n.forgets != nil {
		n.forgets(id, nameOf(e))
	}
	s.used--
	s.removed += len(e)
	if s.used == 0 {
		shard, _ := place(id)
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
	if s.removed > len(s.entries)/4 {
		n.rebuild(s, max(8, s.used*4/3), len(s.entries)-s.removed)
	}
}

// rebuild gives s another number of slots and, unless room is 0, drops what was removed.
func (n *names) rebuild(s *nameShard, slots, room int) {
	old := *s
	s.slots, s.used = make([]uint32, slots), 0
	if room != 0 {
		s.entries, s.removed = make([]byte, 0, room), 0
	}
	for _, slot := range old.slots {
		if slot == 0 {
			continue
		}
		at := offset(slot)
		e := old.entry(at)
		_, part := place(n.idOf(e))
		if room != 0 {
			at = uint32(len(s.entries))
			s.entries = append(s.entries, e...)
		}
		s.insert(part, at)
	}
}

// ofTenant are the users of a tenant.
func (n *names) ofTenant(tenant string) (users []schemas.UserID) {
	for _, s := range n.shards {
		if s == nil {
			continue
		}
		for _, slot := range s.slots {
			if slot == 0 {
				continue
			}
			if e := s.entry(offset(slot)); nameOf(e).Tenant == tenant {
				users = append(users, n.idOf(e))
			}
		}
	}
	return users
}

// bytes is the memory of the table.
func (n *names) bytes() int {
	const header = 64
	sum := 8 * nameShards
	for _, s := range n.shards {
		if s != nil {
			sum += header + 4*cap(s.slots) + cap(s.entries)
		}
	}
	return sum
}

// learn takes the name that a record has for a user. It returns the name known so far.
func (n *names) learn(id schemas.UserID, name schemas.Name) (known schemas.Name) {
	if _, _, e := n.find(id); e != nil {
		return nameOf(e)
	}
	n.put(id, name)
	_, _, e := n.find(id)
	e[0] |= flagUnsaved
	n.fresh = append(n.fresh, id)
	return schemas.Name{}
}

// name puts the user's name into a status that is about to be written. One that says nothing of the
// user's presence has none.
func (n *names) name(s *schemas.Status) {
	_, _, e := n.find(s.User)
	switch {
	case e == nil:
		s.Collided = n.isAwaited(s.User) && !s.Tombstone()
	case !s.Nameless():
		e[0], e[1] = e[0]&^flagUnsaved, e[1]&^flagLeaving
		s.Name, s.Collided = nameOf(e), n.isCollided(s.User)
	case e[1]&flagLeaving == 0:
		e[1] |= flagLeaving
		n.leaving = append(n.leaving, s.User)
	}
}

// unsaved reports whether no status with the user's name has been written.
func (n *names) unsaved(id schemas.UserID) bool {
	_, _, e := n.find(id)
	return e != nil && e[0]&flagUnsaved != 0
}

// settle forgets the names of users without a status, when a record has been handled.
func (n *names) settle() {
	for _, id := range n.fresh {
		if n.unsaved(id) {
			n.remove(id)
		}
	}
	for _, id := range n.leaving {
		if _, _, e := n.find(id); e != nil && e[1]&flagLeaving != 0 {
			n.remove(id)
		}
	}
	n.fresh, n.leaving = n.fresh[:0], n.leaving[:0]
}
