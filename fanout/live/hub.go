package live

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// shards is how many locks the entries are spread over.
const shards = 64

// hub has one entry for each user whom a viewer of this node watches.
type hub struct {
	cfg    fanout.Config
	limits atomic.Pointer[fanout.Config] // the part of it that Server.Limit replaces
	Dependencies
	schedules  atomic.Pointer[schedules] // of the hello
	reader     reader
	recipients deliveryViewers
	shards     [shards]shard
	reconnect  chan struct{} // capacity 1: read everything again
	rereads    chan struct{} // capacity 1: some users are to be read again
	undecided  undecided
	// losses counts the lost connections of the bus, from 2 on. complete is what it was when everything
	// wanted was last subscribed again; a user whose state read after that is fresh has missed nothing since.
	losses, complete atomic.Uint64
}

type shard struct {
	mu    sync.Mutex // never held while anything blocks
	users map[schemas.UserID]*entry
}

// entry is one watched user, shared by all its viewers. Guarded by its shard.
type entry struct {
	user schemas.UserID
	name *schemas.Name // what its viewers call the user, if it is not the number; immutable
	// current is the user's state by the first read and the channel; nil before that read. Reads of
	// later viewers do not change it: the channel brings the same changes to the other viewers, each
	// of them once.
	current *state
	early   fanout.Change // the newest change that came before the first read
	whole   uint64        // hub.losses up to which no viewer misses a change; 0: unknown. The next change is a resync if there were more.
	unsure  bool          // a viewer was sent an unsure state, or the state is being read again
	reread  bool          // the state is to be read again, whatever comes on the channel before
	// known is the newest version that a read had and the channel had not brought by then; 0: none.
	// knownSince is the time of that read. See compare.go.
	known      int64
	knownSince time.Time
	list       *list // nil: the user denies nobody
	subs       []*sub
}

// sub is one viewer's subscription to one user.
type sub struct {
	viewer *viewer
	entry  *entry
	at     int // index in entry.subs; guarded by the shard
	// denied says that the user looks hidden to the viewer alone. Set under the shard and the viewer's mutex.
	denied bool

	// Guarded by the viewer's mutex.
	live  bool   // the snapshot was made; changes may be queued
	stale bool   // the state sent last was stale
	round uint32 // the last collapse that left a change of this subscription
	base  int64  // version of the last snapshot: nothing older is sent after it
	last  int64  // newest version sent or queued
}

// schedules are what hellos say. They are never changed.
type schedules struct {
	all     schemas.Schedule
	tenants map[string]schemas.Schedule // of tenants with policies of their own
}

// follow sets the schedules in every hello from now on.
func (h *hub) follow(all schemas.Schedule, tenants map[string]schemas.Schedule) {
	h.schedules.Store(&schedules{all, tenants})
}

// schedule is that of the devices of a tenant.
func (h *hub) schedule(tenant string) schemas.Schedule {
	s := h.schedules.Load()
	if own, ok := s.tenants[tenant]; ok {
		return own
	}
	return s.all
}

func newHub(cfg fanout.Config, d Dependencies) *hub {
	h := &hub{cfg: cfg, Dependencies: d, reconnect: make(chan struct{}, 1), rereads: make(chan struct{}, 1), recipients: newDeliveryViewers(),
		undecided: undecided{wake: make(chan struct{}, 1)},
		reader:    reader{view: d.View, recent: d.Recent, metrics: d.Metrics, offline: cfg.HiddenOffline}}
	h.limits.Store(&cfg)
	h.losses.Store(2)
	h.follow(schemas.ScheduleOf(cfg.HeartbeatInterval, cfg.HeartbeatJitter), cfg.TenantSchedules)
	for i := range h.shards {
		h.shards[i].users = make(map[schemas.UserID]*entry)
	}
	return h
}

func (h *hub) shardOf(id schemas.UserID) *shard { return &h.shards[uint64(id)%shards] }

// attach subscribes v to ids. Nothing is queued before settle.
func (h *hub) attach(v *viewer, ids []schemas.UserID) []*sub {
	subs := make([]*sub, len(ids))
	for i, id := range ids {
		s := &sub{viewer: v}
		subs[i] = s
		sh := h.shardOf(id)
		sh.mu.Lock()
		e, name := sh.users[id], v.called[id]
		switch {
		case e == nil:
			e = &entry{user: id, name: name}
			sh.users[id] = e
			h.Metrics.Watched.Inc()
		case name != nil && *name != *e.name:
			e = &entry{user: id, name: name} // two names have one id: this one looks hidden, and gets no changes
		}
		s.entry, s.at = e, len(e.subs)
		e.subs = append(e.subs, s)
		sh.mu.Unlock()
	}
	h.Metrics.Subscriptions.Add(float64(len(ids)))
	return subs
}

// detach undoes attach. Queued changes of subs are not sent any more.
func (h *hub) detach(subs []*sub) {
	for _, s := range subs {
		e := s.entry
		sh := h.shardOf(e.user)
		sh.mu.Lock()
		last := len(e.subs) - 1
		e.subs[s.at] = e.subs[last]
		e.subs[s.at].at = s.at
		e.subs[last] = nil
		if e.subs = e.subs[:last]; last == 0 && sh.users[e.user] == e {
			delete(sh.users, e.user)
			h.Metrics.Watched.Dec()
		}
		sh.mu.Unlock()
		s.viewer.mu.Lock()
		s.live = false
		s.viewer.mu.Unlock()
	}
	h.Metrics.Subscriptions.Sub(float64(len(subs)))
}

// settle ends the reading of a snapshot for s. It returns the state to send; from now on everything
// newer is queued. whole is hub.losses before the channels were subscribed, 0 if they are not yet. d says whether the
// user denies the viewer, as of after the reading.
func (h *hub) settle(s *sub, read schemas.Presence, whole uint64, d shown.Denying) *state {
	sent := newState(read)
	e := s.entry
	sh := h.shardOf(e.user)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.users[e.user] != e {
		sent = h.hidden(e.user, e.name)
	}
	if e.current == nil {
		if d.Version != 0 {
			e.list = &list{version: d.Version}
		}
		h.adopt(e, h.withEarly(e, sent))
		if read.StaleSince != 0 && whole != 0 {
			whole-- // what was published before the channels were subscribed may be missing
		}
		e.early, e.whole = fanout.Change{}, whole
	}
	switch {
	case e.current.version > sent.version:
		sent = e.current.withStale(read.StaleSince)
	case e.current.version < sent.version:
		e.knows(sent.version)
	}
	e.unsure = e.unsure || sent.unsure()
	sent = h.seen(s, sent, d)
	v := s.viewer
	v.mu.Lock()
	s.live, s.denied, s.stale, s.base, s.last = true, sent.denied, sent.stale(), sent.version, sent.version
	v.mu.Unlock()
	return sent
}

// withEarly returns the newer of a first read and the change that came before it. Holds the shard.
func (h *hub) withEarly(e *entry, read *state) *state {
	if c := e.early; c.Transition != nil && int64(c.Transition.Version) > read.version {
		return newState(h.reader.after(c, read.presence))
	}
	return read
}

// Change receives one change from the bus; see fanout.Receiver.
func (h *hub) Change(c fanout.Change) {
	t := c.Transition
	sh := h.shardOf(t.User)
	sh.mu.Lock()
	resting := h.change(sh.users[t.User], c)
	sh.mu.Unlock()
	serve(resting)
}

// Reread makes resyncs read a watched user again; see fanout.Receiver.
func (h *hub) Reread(user schemas.UserID) {
	sh := h.shardOf(user)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.users[user]; e != nil {
		e.reread = true
		select {
		case h.rereads <- struct{}{}:
		default:
		}
	}
}

// change queues c for the viewers of e. It returns those for whom nobody works yet. Holds the shard.
func (h *hub) change(e *entry, c fanout.Change) (resting []*viewer) {
	t := c.Transition
	switch {
	case e == nil: // the last viewer has just unsubscribed
		return nil
	case e.current == nil:
		if e.early.Transition == nil || t.Version > e.early.Transition.Version {
			e.early = c
		}
		return nil
	case int64(t.Version) <= e.current.version:
		h.Metrics.ChangesDropped.Inc()
		return nil
	}
	// A change does not say whether the user still is of a lost gateway, or when one was last here who now shows it.
	prior := e.current
	before := prior.presence
	e.reread = e.reread || before.UnsureSince != 0 ||
		t.LastSeen == 0 && (t.Cause == schemas.LastSeenSet || before.LastSeen != "" && t.Override.LastSeen == 0)
	if losses := h.losses.Load(); e.whole != losses { // those before it may be missing, and the begin of the state
		e.whole = losses
		before.Since = 0
		h.adopt(e, newState(h.reader.after(c, before)))
		e.unsure = e.unsure || e.current.unsure()
		h.resync(e, e.current, false)
		return nil
	}
	h.adopt(e, newState(h.reader.after(c, before)))
	quiet := t.Cause == schemas.AudienceSet && prior.resembles(e.current)
	pushed := 0
	for _, s := range e.subs {
		if quiet && s.viewer.note(s, prior, e.current) {
			continue
		}
		took, rests := s.viewer.pushChange(s, e.current)
		if took {
			pushed++
		}
		if rests {
			resting = append(resting, s.viewer)
		}
	}
	// Viewers who did not get this change have a newer state, perhaps an unsure one.
	e.unsure = e.current.unsure() || e.unsure && pushed < len(e.subs)
	h.Metrics.Queued.Add(float64(pushed))
	return resting
}

// Disconnected makes the next message of each watched user a resync unless it is read again before;
// see fanout.Receiver.
func (h *hub) Disconnected() { h.losses.Add(1) }

// Connected makes resyncs read all watched users again; see fanout.Receiver.
func (h *hub) Connected() {
	h.complete.Store(h.losses.Load())
	select {
	case h.reconnect <- struct{}{}:
	default:
	}
}
