package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/dedup"
	"github.com/stillhere/stillhere/schemas"
)

// shards is how many locks the entries are spread over.
const shards = 64

// hub has one entry per user that somebody here watches.
type hub struct {
	cfg        fanout.Config
	interval   atomic.Int64 // nanoseconds; HeartbeatInterval as it is now
	metrics    *fanout.Metrics
	bus        Bus
	reader     reader
	mayWatch   MayWatch // nil: everybody may
	mayBeTold  func(context.Context, schemas.UserID, []schemas.UserID) ([]schemas.UserID, error)
	recipients deliveryViewers
	shards     [shards]shard
	reconnect  chan struct{} // capacity 1: read everything again
}

type shard struct {
	mu    sync.Mutex // never held while anything blocks
	users map[schemas.UserID]*entry
}

// entry is one watched user, shared by all its viewers. Guarded by its shard.
type entry struct {
	user schemas.UserID
	// current is what the channel and the first read have made of the user; nil until
	// that read. A later viewer's read does not enter it: the channel is about to
	// bring the same to the others, each change once.
	current *state
	early   fanout.Change // newest that came before the first read
	unsure  bool          // somebody was told something unsure
	// known is the newest version that a reading has and the channel had not brought by
	// then, and since when that is so; 0: none. See compare.go.
	known      int64
	knownSince time.Time
	subs       []*sub
}

// sub is one viewer's subscription to one user.
type sub struct {
	viewer *viewer
	entry  *entry
	at     int // index in entry.subs; guarded by the shard

	// Guarded by the viewer's mutex.
	live  bool   // the snapshot is settled, changes may be queued
	stale bool   // the viewer was told last that the state may be out of date
	round uint32 // of the last collapse that kept a change of it
	base  int64  // version of the last snapshot: nothing older goes out after it
	last  int64  // newest version told or queued
}

func newHub(cfg fanout.Config, metrics *fanout.Metrics, bus Bus, r reader) *hub {
	h := &hub{cfg: cfg, metrics: metrics, bus: bus, reader: r,
		reconnect: make(chan struct{}, 1), recipients: deliveryViewers{of: map[schemas.UserID][]*viewer{}, delivered: dedup.New(dedupPairs)}}
	h.interval.Store(int64(cfg.HeartbeatInterval))
	for i := range h.shards {
		h.shards[i].users = make(map[schemas.UserID]*entry)
	}
	return h
}

// after is how viewers see the user after c, who was seen as previous before.
func (h *hub) after(c fanout.Change, previous schemas.Presence) schemas.Presence {
	return h.reader.after(c, previous)
}

func (h *hub) shardOf(id schemas.UserID) *shard { return &h.shards[uint64(id)%shards] }

// attach puts v among the viewers of ids. Nothing is queued before settle.
func (h *hub) attach(v *viewer, ids []schemas.UserID) []*sub {
	subs := make([]*sub, len(ids))
	for i, id := range ids {
		s := &sub{viewer: v}
		subs[i] = s
		sh := h.shardOf(id)
		sh.mu.Lock()
		e := sh.users[id]
		if e == nil {
			e = &entry{user: id}
			sh.users[id] = e
			h.metrics.Watched.Inc()
		}
		s.entry, s.at = e, len(e.subs)
		e.subs = append(e.subs, s)
		sh.mu.Unlock()
	}
	h.metrics.Subscriptions.Add(float64(len(ids)))
	return subs
}

// detach undoes attach; nothing more of it is sent.
func (h *hub) detach(subs []*sub) {
	for _, s := range subs {
		e := s.entry
		sh := h.shardOf(e.user)
		sh.mu.Lock()
		last := len(e.subs) - 1
		e.subs[s.at] = e.subs[last]
		e.subs[s.at].at = s.at
		e.subs[last] = nil
		if e.subs = e.subs[:last]; last == 0 {
			delete(sh.users, e.user)
			h.metrics.Watched.Dec()
		}
		sh.mu.Unlock()
		s.viewer.mu.Lock()
		s.live = false
		s.viewer.mu.Unlock()
	}
	h.metrics.Subscriptions.Sub(float64(len(subs)))
}

// settle ends the reading of a snapshot for s: it returns what to tell the viewer,
// and from now on everything newer than that is queued.
func (h *hub) settle(s *sub, read schemas.Presence) *state {
	sent := newState(read)
	e := s.entry
	sh := h.shardOf(e.user)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e.current == nil {
		e.current = sent
		if c := e.early; c.Transition != nil && int64(c.Transition.Version) > sent.version {
			e.current = newState(h.after(c, read))
		}
		e.early = fanout.Change{}
	}
	switch {
	case e.current.version > sent.version:
		sent = e.current.withStale(read.StaleSince)
	case e.current.version < sent.version:
		e.knows(sent.version)
	}
	e.unsure = e.unsure || sent.unsure()
	v := s.viewer
	v.mu.Lock()
	s.live, s.stale, s.base, s.last = true, sent.stale(), sent.version, sent.version
	v.mu.Unlock()
	return sent
}

// Change takes one change off the bus; see fanout.Receiver.
func (h *hub) Change(c fanout.Change) {
	t := c.Transition
	sh := h.shardOf(t.User)
	sh.mu.Lock()
	idle := h.change(sh.users[t.User], c)
	sh.mu.Unlock()
	serve(idle)
}

// change queues c for the viewers of e and gives back those for whom nobody works
// yet. Holds the shard.
func (h *hub) change(e *entry, c fanout.Change) (resting []*viewer) {
	t := c.Transition
	switch {
	case e == nil: // everybody has just left
		return nil
	case e.current == nil:
		if e.early.Transition == nil || t.Version > e.early.Transition.Version {
			e.early = c
		}
		return nil
	case int64(t.Version) <= e.current.version:
		h.metrics.ChangesDropped.Inc()
		return nil
	}
	e.current = newState(h.after(c, e.current.presence))
	pushed := 0
	for _, s := range e.subs {
		took, rests := s.viewer.pushChange(s, e.current)
		if took {
			pushed++
		}
		if rests {
			resting = append(resting, s.viewer)
		}
	}
	// Who was not told this has been told something newer, perhaps unsure.
	e.unsure = e.current.unsure() || e.unsure && pushed < len(e.subs)
	h.metrics.Queued.Add(float64(pushed))
	return resting
}

// Connected has everything read again; see fanout.Receiver.
func (h *hub) Connected() {
	select {
	case h.reconnect <- struct{}{}:
	default:
	}
}
