package liveness

import (
	"cmp"
	byHeap "container/heap"
	"maps"
	"math"
	"slices"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/schemas"
)

// A snapshot is the state between two records. What follows from it is left out: the index, the timers,
// the sums. Users come last, because there are so many: a capture writes them while records are applied.

// snapshotForm changes whenever the walk does.
const snapshotForm = 9

// walk walks over the state of a machine.
type walk struct {
	*snapshot.Codec
	now   schemas.Millis // the log time
	users int            // how many have entries
}

// Walk writes or reads the state. It must not be called between BeginLossy and EndLossy. What it writes is the same for
// the same state, whatever its layout in memory. A machine that reads must be new, and of the same partition; if the
// codec failed, it must not be used.
func (m *Machine) Walk(s *snapshot.Codec) {
	w := walk{Codec: s}
	if w.machine(m); s.Failed() {
		return
	}
	if s.Reading {
		w.read(m)
		return
	}
	entries := make([]uint32, 0, m.store.live)
	for e := range m.liveEntries() {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b uint32) int { return cmp.Compare(m.store.hot(a).user, m.store.hot(b).user) })
	for _, e := range entries {
		w.write(m, e, &m.scratch)
	}
}

func (s *walk) machine(m *Machine) {
	form, partition, partitions := snapshotForm, m.partition, m.partitions
	snapshot.Number(s.Codec, &form)
	snapshot.Numbers(s.Codec, &partition, &partitions)
	if form != snapshotForm || partition != m.partition || partitions != m.partitions {
		s.Fail()
		return
	}
	snapshot.Number(s.Codec, &m.offset)
	snapshot.Number(s.Codec, &m.logEpoch)
	snapshot.List(s.Codec, &m.bases, func(b *schemas.EpochBase) {
		snapshot.Number(s.Codec, &b.LogEpoch)
		snapshot.Number(s.Codec, &b.Offset)
	})
	if n := len(m.bases); n == 0 || m.bases[n-1].Offset < 0 || m.logEpoch < 1 || m.logEpoch > schemas.MaxLogEpoch {
		s.Fail()
		return
	}
	s.clock(&m.clock)
	snapshot.Number(s.Codec, &m.evaluated)
	s.policies(m)
	s.Flag(&m.breaker.disarmed)
	s.gateways(&m.gateways)
	s.tenants(&m.tenants)
	if s.Failed() {
		return
	}
	if s.Reading {
		m.setPolicy(m.policy.Policy, m.gateways.from) // what follows from it
	}
	s.absent(m)
	s.Flag(&m.behind)
	snapshot.Number(s.Codec, &m.restartedAt)
	s.now, s.users = m.clock.now, s.Length(m.store.live)
}

func (s walk) clock(c *clock) {
	snapshot.Numbers(s.Codec, &c.now, &c.total, &c.stopped)
	snapshot.List(s.Codec, &c.frozen, func(f *schemas.Span) { snapshot.Numbers(s.Codec, &f.Start, &f.End) })
}

func (s walk) policies(m *Machine) {
	snapshot.Number(s.Codec, &m.policy.Offset)
	snapshot.Number(s.Codec, &m.policy.At)
	s.policy(&m.policy.Policy)
	snapshot.Numbers(s.Codec, &m.policyFrom, &m.gateways.from)
}

func (s walk) policy(p *schemas.Policy) {
	var key, value string
	if !s.Reading {
		record := schemas.PolicyRecord{Policy: *p}
		key, value = string(record.Key()), string(record.Encode())
	}
	s.Text(&key)
	if s.Text(&value); s.Reading && !s.Failed() {
		record, err := schemas.DecodePolicyRecord([]byte(key), []byte(value))
		if err != nil {
			s.Fail()
		}
		*p = record.Policy
	}
}

func (s walk) gateways(g *gateways) {
	snapshot.List(s.Codec, &g.lives, func(l *life) {
		s.Text(&l.id)
		snapshot.Numbers(s.Codec, &l.epoch, &l.heard, &l.lostAt)
		snapshot.Number(s.Codec, &l.end)
		s.Flag(&l.used)
		snapshot.Numbers(s.Codec, &l.closedAt, &l.resumed, &l.begun)
		snapshot.Numbers(s.Codec, &l.planned, &l.wait)
		snapshot.Number(s.Codec, &l.spread)
		snapshot.Numbers(s.Codec, &l.returned, &l.released)
	})
	snapshot.List(s.Codec, &g.free, func(n *uint16) { snapshot.Number(s.Codec, n) })
	snapshot.List(s.Codec, &g.unplanned, func(n *uint16) { snapshot.Number(s.Codec, n) })
	snapshot.Numbers(s.Codec, &g.ticked, &g.ownedFrom)
	s.Flag(&g.unowned)
	snapshot.Number(s.Codec, &g.freeAt)
	snapshot.Numbers(s.Codec, &g.held, &g.heldUntil)
	snapshot.Number(s.Codec, &g.swept)
	snapshot.List(s.Codec, &g.ends, func(e *GatewayEnd) {
		text := string(e.Gateway)
		s.Text(&text)
		e.Gateway = schemas.GatewayID(text)
		snapshot.Numbers(s.Codec, &e.Epoch, &e.HeardAt)
		s.Flag(&e.Drained)
		snapshot.Numbers(s.Codec, &e.Returned, &e.Released)
	})
	snapshot.Table(s.Codec, g.known, func(id *string, known **gateway) {
		if s.Reading {
			*known = &gateway{}
		}
		s.Text(id)
		(*known).id = *id
		s.latest(&(*known).own)
		s.latest(&(*known).others)
	})
	// Epochs are in the order in which they were heard, those with leases at the end by their names.
	var epochs []epoch
	for e := g.oldest; e != nil; e = e.next {
		epochs = append(epochs, *e)
	}
	list := len(epochs)
	for _, known := range g.known {
		for _, e := range known.epochs {
			if e.leased {
				epochs = append(epochs, *e)
			}
		}
	}
	slices.SortFunc(epochs[list:], func(a, b epoch) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.epoch, b.epoch))
	})
	snapshot.List(s.Codec, &epochs, func(e *epoch) {
		s.Text(&e.id)
		snapshot.Numbers(s.Codec, &e.epoch, &e.heard)
		snapshot.Number(s.Codec, &e.sequence)
		snapshot.Number(s.Codec, &e.life)
		s.Flag(&e.leased)
		s.Flag(&e.draining)
	})
	if s.Reading && !s.Failed() {
		unknown := func(life uint16) bool { return int(life) >= len(g.lives) }
		wrong := func(l life) bool { return l.wait < 0 || l.spread < 0 || l.end > crowded }
		if g.freeAt < 0 || slices.ContainsFunc(g.lives, wrong) || len(g.lives) < firstLife || g.swept < firstLife ||
			slices.ContainsFunc(g.free, unknown) || slices.ContainsFunc(g.unplanned, unknown) {
			s.Fail()
			return
		}
		s.link(g, epochs)
	}
}

// link restores what follows from lives and epochs.
func (s walk) link(g *gateways, epochs []epoch) {
	for i := firstLife; i < len(g.lives); i++ {
		if l := &g.lives[i]; l.used && l.endless() {
			g.standIns[standIn{l.id, l.epoch, l.end}] = uint16(i)
		}
	}
	for i := range epochs {
		e := &epochs[i]
		e.next, e.prev = nil, nil
		known := g.known[e.id]
		if known == nil || int(e.life) >= len(g.lives) || e.leased && e.life < firstLife {
			s.Fail()
			return
		}
		g.lives[e.life].leased = e.leased
		known.epochs = append(known.epochs, e)
		g.link(e)
	}
	for _, id := range slices.Sorted(maps.Keys(g.known)) {
		if known := g.known[id]; len(known.epochs) == 0 {
			known.idle, g.idle = true, append(g.idle, known)
		}
	}
}

func (s walk) latest(l *latest) {
	for i := range l {
		snapshot.Number(s.Codec, &l[i].epoch)
		s.counted(&l[i].counted)
		s.counted(&l[i].draining)
		snapshot.List(s.Codec, &l[i].numbered, func(n *numbered) {
			snapshot.Number(s.Codec, &n.sequence)
			s.counted(&n.counted)
		})
	}
}

func (s walk) counted(c *counted) {
	snapshot.Number(s.Codec, &c.at)
	snapshot.Number(s.Codec, &c.silence)
}

func (s walk) tenants(t *tenants) {
	if s.Reading {
		t.away, t.named = map[schemas.UserID]uint8{}, map[schemas.UserID]schemas.Millis{}
	}
	snapshot.List(s.Codec, &t.all, func(one *tenant) {
		s.Text(&one.name)
		snapshot.Number(s.Codec, &one.from)
		s.optional(&one.policy)
	})
	snapshot.Table(s.Codec, t.away, func(user *schemas.UserID, tenant *uint8) {
		snapshot.Number(s.Codec, user)
		snapshot.Number(s.Codec, tenant)
	})
	snapshot.Table(s.Codec, t.named, func(user *schemas.UserID, at *schemas.Millis) {
		snapshot.Number(s.Codec, user)
		snapshot.Number(s.Codec, at)
	})
	snapshot.List(s.Codec, &t.namings, func(j *judgement) {
		snapshot.Number(s.Codec, &j.user)
		snapshot.Number(s.Codec, &j.tenant)
		snapshot.Number(s.Codec, &j.at)
	})
}

// optional is a policy that may be none.
func (s walk) optional(p **schemas.Policy) {
	if present(s, p) {
		s.policy(*p)
	}
}

// present reports whether there is a value, and makes one when it reads that there was.
func present[T any](s walk, value **T) bool {
	there := *value != nil
	if s.Flag(&there); there && s.Reading {
		*value = new(T)
	}
	return there
}

// instant is a time in the state of a user, as its distance from the log time: a few bytes.
func (s walk) instant(t *schemas.Millis) {
	ago := schemas.Millis(0)
	if *t != 0 {
		if ago = s.now - *t; ago >= 0 {
			ago++ // 0 stands for no instant
		}
	}
	if snapshot.Number(s.Codec, &ago); !s.Reading || ago == 0 {
		return
	}
	if *t = s.now - ago; ago > 0 {
		*t++
	}
}

// absent is what is kept of users without entries.
func (s walk) absent(m *Machine) {
	snapshot.Table(s.Codec, m.hidden, func(user *schemas.UserID, h *hiddenUser) {
		snapshot.Number(s.Codec, user)
		snapshot.Numbers(s.Codec, &h.lastSeen, &h.lastActive, &h.since)
	})
	snapshot.Table(s.Codec, m.overrides, func(user *schemas.UserID, over **schemas.Override) {
		snapshot.Number(s.Codec, user)
		s.override(over)
	})
	snapshot.Table(s.Codec, m.denied, func(user *schemas.UserID, list *denied) {
		snapshot.Number(s.Codec, user)
		s.Flag(&list.partial)
		for i := range s.Length(len(list.viewers)) {
			if s.Reading {
				list.viewers = append(list.viewers, 0)
			}
			snapshot.Number(s.Codec, &list.viewers[i])
		}
	})
	snapshot.Table(s.Codec, m.privacy, func(user *schemas.UserID, k *privacyRecord) {
		snapshot.Number(s.Codec, user)
		snapshot.Number(s.Codec, &k.erased)
		snapshot.Numbers(s.Codec, &k.shownAt, &k.withheld, &k.looksAt)
	})
	for id, k := range m.privacy {
		if s.Reading && k.looksAt != 0 {
			m.fading = append(m.fading, userAt{k.looksAt, id})
		}
	}
	byHeap.Init(&m.fading)
}

// write writes the user of an entry.
func (s walk) write(m *Machine, e uint32, scratch *user) {
	u := *m.load(e, scratch)
	u.normalize(m.base)
	s.user(&u)
}

// read reads the users, in any order.
func (s walk) read(m *Machine) {
	if m.clock.now != 0 {
		m.rebase(m.clock.now)
		m.wheel.restart(m.evaluated)
	}
	m.index.reserve(s.users)
	var a adopted
	for range s.users {
		u := user{reports: m.scratch.reports[:0]}
		if s.user(&u); s.Failed() || !a.add(m, &u) {
			s.Fail()
			return
		}
		m.scratch.reports = u.reports
	}
	if !a.insert(m) {
		s.Fail()
	}
}

// normalize makes u what its entry says, if it fits in one: what does not matter any more is kept as long as the
// user does not fit.
func (u *user) normalize(base schemas.Millis) {
	if u.simple(base) {
		u.unsureEnded, u.dirty = false, false
	}
}

// adopted are entries of users that were read, and that are not in the index yet. Several are inserted together:
// the loads of their slots overlap, which makes a restore of millions faster by a third.
type adopted struct {
	n       int
	entries [128]uint32
	hashes  [128]uint64
}

// add gives a user that was read an entry; false if there can be no such user.
func (a *adopted) add(m *Machine, u *user) bool {
	if int(u.tenant) >= max(1, len(m.tenants.all)) || m.foreign(u.id) || a.n == len(a.entries) && !a.insert(m) {
		return false
	}
	for i := range u.reports {
		if int(u.reports[i].life) >= len(m.gateways.lives) {
			return false
		}
		m.gateways.attach(&u.reports[i])
	}
	m.use(u.tenant)
	u.most = math.MaxUint16 // not known
	u.over = m.overrides[u.id]
	e := m.store.add(u.id)
	a.entries[a.n], a.hashes[a.n] = e, m.index.hash(u.id)
	a.n++
	m.encode(e, u)
	m.arm(e, u, false)
	return true
}

// insert adds the entries to the index; false if a user has two.
func (a *adopted) insert(m *Machine) bool {
	var loaded uint32
	for _, hash := range a.hashes[:a.n] {
		loaded += m.index.prefetch(hash)
	}
	m.block.prefetched = loaded
	for i, hash := range a.hashes[:a.n] {
		e := a.entries[i]
		if m.index.find(&m.store, hash, m.store.hot(e).user) != none {
			return false
		}
		m.index.insert(&m.store, hash, e)
	}
	a.n = 0
	return true
}

func (s walk) user(u *user) {
	snapshot.Number(s.Codec, &u.id)
	snapshot.Number(s.Codec, &u.tenant)
	snapshot.Number(s.Codec, &u.state)
	snapshot.Number(s.Codec, &u.kinds)
	s.Flag(&u.hidden)
	s.instant(&u.since)
	s.instant(&u.lastSeen)
	s.instant(&u.lastActive)
	for i := range s.Length(len(u.reports)) {
		if s.Reading {
			u.reports = append(u.reports, report{})
		}
		r := &u.reports[i]
		snapshot.Number(s.Codec, &r.device)
		snapshot.Number(s.Codec, &r.kind)
		s.Flag(&r.bye)
		s.Flag(&r.held)
		snapshot.Number(s.Codec, &r.connection)
		snapshot.Number(s.Codec, &r.life)
		s.instant(&r.seen)
		s.instant(&r.active)
	}
	rare := u.silentFrom != 0 || u.last != 0 || u.flaps != (flaps{}) || u.releaseDelay != 0 || u.unsureSince != 0 ||
		u.end != ongoing || u.unsureEnded || u.dirty
	if s.Flag(&rare); !rare {
		return
	}
	s.instant(&u.silentFrom)
	snapshot.Number(s.Codec, &u.releaseDelay)
	snapshot.Number(s.Codec, &u.end)
	snapshot.Number(s.Codec, &u.last)
	s.instant(&u.flaps.bucket.at)
	snapshot.Number(s.Codec, &u.flaps.bucket.lacks)
	s.instant(&u.flaps.publishedAt)
	snapshot.Number(s.Codec, &u.flaps.leftOut)
	s.waiting(&u.flaps.waiting)
	s.instant(&u.unsureSince)
	s.Flag(&u.unsureEnded)
	s.Flag(&u.dirty)
}

func (s walk) waiting(w **facts) {
	if present(s, w) {
		snapshot.Number(s.Codec, &(*w).state)
		snapshot.Number(s.Codec, &(*w).kinds)
		s.Flag(&(*w).hidden)
		s.override(&(*w).over)
	}
}

// override is one that a user may have; the codec fails for one that no user has.
func (s walk) override(over **schemas.Override) {
	if !present(s, over) {
		return
	}
	o := *over
	snapshot.Number(s.Codec, &o.State)
	snapshot.Number(s.Codec, &o.Until)
	s.Text(&o.Note)
	s.Flag(&o.Hides)
	snapshot.Number(s.Codec, &o.LastSeen)
	snapshot.Number(s.Codec, &o.Audience)
	if !s.Reading {
		return
	}
	if *over = orNone(*o); *over == nil {
		s.Fail()
	}
}
