package detector

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

var errState = errors.New("the snapshot cannot be read: it is cut off, damaged, or of another program or partition")

// Digest is the same for the same state, whoever came to it, whatever its layout in memory.
func (p *Partition) Digest() [sha256.Size]byte {
	var s snapshot.Codec
	p.walk(&s)
	return sha256.Sum256(s.Bytes)
}

// load brings the partition to the state of a snapshot. After an error it is not to be used.
func (p *Partition) load(state []byte) error {
	s := snapshot.Codec{Reading: true, Bytes: state}
	p.walk(&s)
	bases := p.machine.Checkpoint().Bases
	if !s.Done() || bases[len(bases)-1].Offset > p.next { // no version names an offset before its base
		return errState
	}
	if p.names != nil {
		p.countTenants()
	}
	return nil
}

func (p *Partition) walk(s *snapshot.Codec) {
	p.head(s)
	p.machine.Walk(s)
	if p.names != nil {
		p.names.walk(s)
	}
}

// head is what is not in the machine, nor in the table of names.
func (p *Partition) head(s *snapshot.Codec) {
	snapshot.Number(s, &p.next)
	s.Flag(&p.announcePolicy)
	snapshot.Number(s, &p.keptEpoch)
	snapshot.Number(s, &p.lossyAt)
	p.walkCounted(s)
	own := p.config.Users.Pipeline()
	is := own.IDs + own.Fingerprint
	if s.Text(&is); is != own.IDs+own.Fingerprint {
		s.Fail()
	} else if p.names != nil {
		p.names.head(s)
	}
}

// walkCounted is the frames of which copies count for nothing.
func (p *Partition) walkCounted(s *snapshot.Codec) {
	counted := p.checker.Counted()
	snapshot.List(s, &counted, func(f *signing.Counted) {
		s.Text(&f.MAC)
		snapshot.Number(s, &f.Until)
	})
	if s.Reading && !p.checker.Remember(counted) {
		s.Fail()
	}
}

// head is everything but the table.
func (n *names) head(s *snapshot.Codec) {
	ends := inOrder(slices.DeleteFunc(slices.Clone(n.ends), func(e nameEnd) bool { return n.left[e.user] != e.at }))
	snapshot.List(s, &ends, func(e *nameEnd) {
		snapshot.Number(s, &e.at)
		snapshot.Number(s, &e.user)
	})
	if s.Reading {
		for _, e := range ends {
			n.leave(e.user, e.at)
		}
	}
	snapshot.List(s, &n.over, func(u *schemas.UserID) { snapshot.Number(s, u) })
	snapshot.Number(s, &n.now)
	snapshot.Table(s, n.unsaved, func(u *schemas.UserID, unsaved *bool) {
		snapshot.Number(s, u)
		s.Flag(unsaved)
	})
}

// walk is the table, in the order of its users; what is read may have any.
func (n *names) walk(s *snapshot.Codec) {
	var all []nameEntry
	for _, shard := range n.shards {
		all = shard.all(all)
	}
	slices.SortFunc(all, func(a, b nameEntry) int { return cmp.Compare(n.idOf(a), n.idOf(b)) })
	for i := range s.Length(len(all)) {
		if !s.Reading {
			all[i].write(s)
			continue
		}
		var name schemas.Name
		s.Text(&name.Tenant)
		s.Text(&name.Text)
		if s.Failed() || !n.adopt(name) {
			s.Fail()
			return
		}
	}
}

// all appends the entries.
func (s *nameShard) all(to []nameEntry) []nameEntry {
	if s == nil {
		return to
	}
	for _, slot := range s.slots {
		if slot != 0 {
			to = append(to, s.entry(offset(slot)))
		}
	}
	return to
}

func (e nameEntry) write(s *snapshot.Codec) {
	name := e.name()
	s.Text(&name.Tenant)
	s.Text(&name.Text)
}

// adopt takes a name that was read; false: there is no such name, or it is known.
func (n *names) adopt(name schemas.Name) bool {
	if name.Check("name") != nil {
		return false
	}
	id := n.users.ID(name.Tenant, name.Text)
	if _, _, known := n.find(id); known != nil {
		return false
	}
	n.put(id, name)
	return true
}
