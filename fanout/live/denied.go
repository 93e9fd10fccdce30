package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// A user may deny viewers, to whom the user then looks hidden. A state carries the version of the list that it needs.
// When a state needs a newer list, nothing of the user is pushed to viewers who may be denied until decides has read it.

// list is what an entry knows of the viewers whom its user denies. Guarded by the shard.
type list struct {
	version schemas.Version // the newest known
	before  *state          // what viewers have while the list is to be read; nil: sub.denied is by version
	asked   int             // how often a read of the list became necessary
}

// at is the version that the list must have for p to be shown; 0: nobody is denied. An erasure ends a list.
func (l *list) at(p *schemas.Presence) schemas.Version {
	if l == nil || p.Audience == 0 && p.VersionNumber() > l.version {
		return p.Audience
	}
	return max(l.version, p.Audience)
}

// withheld reports whether nothing of the user is pushed to the viewer now. Holds the shard.
func (s *sub) withheld() bool {
	l := s.entry.list
	return l != nil && (s.denied || l.before != nil) && !s.viewer.seesAll()
}

// seesAll reports whether no user can deny the viewer.
func (v *viewer) seesAll() bool { return v.who == 0 || v.exempt || v.hub.Denied == nil }

// looksHidden reports whether st is as that of a hidden user, whose version says nothing of the list.
func (h *hub) looksHidden(st *state) bool {
	word := st.presence.State
	return word == nil || h.cfg.HiddenOffline && *word == schemas.StateWord(schemas.Offline)
}

// adopt makes st the state of e. Holds the shard.
func (h *hub) adopt(e *entry, st *state) {
	before, l := e.current, e.list
	if e.current = st; before == nil {
		before = st
	}
	switch at := l.at(&st.presence); {
	case h.Denied == nil:
	case at != 0 && (l == nil || at > l.version || st.version < int64(l.version) && !h.looksHidden(st)):
		h.require(e, at, before)
	case at == 0 && l != nil:
		e.list = nil
		for _, s := range e.subs {
			s.viewer.mu.Lock()
			s.denied = false
			s.viewer.mu.Unlock()
		}
	}
}

// require has decides read the list of e, of that version or a newer one. Holds the shard.
func (h *hub) require(e *entry, at schemas.Version, before *state) {
	if e.list == nil {
		e.list = new(list)
	}
	l := e.list
	if l.before != nil && at <= l.version {
		return
	}
	if l.before == nil {
		l.before = before
	}
	l.version = max(l.version, at)
	l.asked++
	h.undecided.add(e.user)
}

// denials asks whether users deny the viewer who subscribes to them; nil: none does.
func (v *viewer) denials(ctx context.Context, users []schemas.Presence) []shown.Denying {
	if v.seesAll() {
		return nil
	}
	var ids []schemas.UserID
	var at []schemas.Version
	var places []int
	for i := range users {
		e := v.subs[users[i].UserID].entry
		sh := v.hub.shardOf(e.user)
		sh.mu.Lock()
		needed := e.list.at(&users[i])
		sh.mu.Unlock()
		if needed != 0 {
			ids, at, places = append(ids, e.user), append(at, needed), append(places, i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	all := make([]shown.Denying, len(users))
	answers, err := v.hub.Denying(ctx, v.who, ids, at)
	if err != nil || len(answers) != len(ids) {
		v.hub.Log.Warn("whether users deny a viewer cannot be read; they look hidden until it can",
			"users", len(ids), "error", err)
		return all
	}
	for i, place := range places {
		all[place] = answers[i]
	}
	return all
}

// seen is what the viewer of s is sent of a user who is in state st, by a list that may be of before it or after. Holds
// the shard.
func (h *hub) seen(s *sub, st *state, d shown.Denying) *state {
	e := s.entry
	at := e.list.at(&st.presence)
	if at == 0 || s.viewer.seesAll() {
		return st
	}
	// A list that is newer than what is to be shown does not say whether the viewer was denied that.
	undecided := d.Version < at || int64(d.Version) > st.version && !h.looksHidden(st)
	if undecided || e.list == nil || d.Version > e.list.version {
		h.require(e, max(at, d.Version), e.current)
	}
	switch {
	case undecided:
		return h.denied(e, shown.Denying{}, schemas.MillisOf(time.Now()))
	case d.Since != 0:
		return h.denied(e, d, 0)
	}
	sent := *st
	sent.presence.Audience = d.Version
	return &sent
}

// denied is how the user of e looks to a viewer whom the user denies.
func (h *hub) denied(e *entry, d shown.Denying, staleSince schemas.Millis) *state {
	c := schemas.Current{User: e.user, Visibility: schemas.Nobody, Hidden: d.Hidden}
	if h.cfg.HiddenOffline {
		c = schemas.Current{User: e.user, State: schemas.Offline, Since: d.Since, LastSeen: d.Since, LastActive: d.Since,
			Visibility: schemas.Everyone, Version: d.Hidden}
		switch e.current.presence.LastSeen {
		case "":
		case "hidden":
			c.Override.LastSeen = schemas.SeenNever
		default:
			c.Override.LastSeen = schemas.SeenCoarsely
		}
	}
	p := schemas.PresenceOf(c, staleSince, schemas.MillisOf(time.Now()))
	p.Name = e.name
	st := newState(p)
	st.denied = true
	return st
}

// undecided are the users whose lists are to be read.
type undecided struct {
	mu    sync.Mutex // never held while anything blocks; after a shard's
	users map[schemas.UserID]struct{}
	wake  chan struct{} // capacity 1
}

func (u *undecided) add(user schemas.UserID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users == nil {
		u.users = make(map[schemas.UserID]struct{})
	}
	u.users[user] = struct{}{}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *undecided) take() map[schemas.UserID]struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	users := u.users
	u.users = nil
	return users
}

const (
	// listsAtOnce is how many lists are read at the same time.
	listsAtOnce = 16
	// listRetry is the pause before a list that was behind is read again.
	listRetry = 100 * time.Millisecond
)

// decides reads lists until ctx ends.
func (h *hub) decides(ctx context.Context) {
	var mu sync.Mutex
	behind := make(map[schemas.UserID]struct{})
	var retry <-chan time.Time // nil: none is behind
	failing := false
	for {
		var users map[schemas.UserID]struct{}
		select {
		case <-ctx.Done():
			return
		case <-h.undecided.wake:
			users = h.undecided.take()
		case <-retry:
			users, behind, retry = behind, make(map[schemas.UserID]struct{}), nil
		}
		var reads errgroup.Group
		reads.SetLimit(listsAtOnce)
		for user := range users {
			reads.Go(func() error {
				err := h.decide(ctx, user)
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					behind[user] = struct{}{}
				}
				if errors.Is(err, shown.ErrBehind) {
					return nil
				}
				return err
			})
		}
		err := reads.Wait()
		if err != nil && !failing && ctx.Err() == nil {
			h.Log.Warn("nothing is shown of users whose denied viewers cannot be read", "error", err, "retry_in", listRetry)
		}
		failing = err != nil
		if len(behind) > 0 && retry == nil {
			retry = time.After(listRetry)
		}
	}
}

// decide reads the list of a user and pushes what viewers may see by it. After an error it is to be called again.
func (h *hub) decide(ctx context.Context, user schemas.UserID) error {
	sh := h.shardOf(user)
	sh.mu.Lock()
	e := sh.users[user]
	if e == nil || e.list == nil || e.list.before == nil {
		sh.mu.Unlock()
		return nil
	}
	l, at, asked := e.list, e.list.version, e.list.asked
	sh.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
	defer cancel()
	d, err := h.Denied(ctx, user, at)
	if err != nil {
		return fmt.Errorf("reading whom user %d denies: %w", user, err)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.users[user] != e || e.list != l || l.asked != asked: // undecided has the user again, if there is need
		return nil
	case d.Version < at:
		return shown.ErrBehind
	case int64(d.Version) > e.current.version && !h.looksHidden(e.current): // the channel is behind the list
		e.knows(int64(d.Version))
		return shown.ErrBehind
	}
	serve(h.apply(e, d))
	return nil
}

// apply decides by a list who may see the user of e, and pushes to each viewer what that changes and what the viewer
// has missed. It returns those for whom nobody works yet. Holds the shard.
func (h *hub) apply(e *entry, d shown.Denied) (resting []*viewer) {
	l, current, before := e.list, e.current, e.list.before
	l.version, l.before = d.Version, nil
	same, pushed := before.resembles(current), 0
	for _, s := range e.subs {
		v := s.viewer
		if v.seesAll() {
			continue
		}
		since, denied := d.Viewers[v.who]
		v.mu.Lock()
		was, item := s.denied, queued{sub: s, state: current, resync: true}
		s.denied = false
		switch {
		case denied && (s.stale || !was && (s.last > before.version || !h.looksHidden(before))):
			item.state, item.resync = h.denied(e, shown.Denying{Since: since, Hidden: d.Version}, 0), was
		case denied: // and looks hidden already
			item.state = nil
		case was:
			if item.resync = s.stale; current.version < s.last || !s.stale && current.version < int64(d.Version) {
				item.state = nil // of an earlier connection, or hidden from everybody
			}
		case same && s.last <= before.version:
			s.last, item.state = max(s.last, current.version), nil
		case current.version <= s.last && (same || current.version < s.last):
			item.state = nil
		}
		if item.state != nil && s.live && v.push(item) {
			pushed++
			if v.startOrRest() {
				resting = append(resting, v)
			}
		}
		s.denied = denied
		v.mu.Unlock()
	}
	h.Metrics.Queued.Add(float64(pushed))
	return resting
}

// note gives the viewer of s, who has before, the version of after, which looks the same; false: the viewer has another
// state. Holds the shard.
func (v *viewer) note(s *sub, before, after *state) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !s.live || s.withheld() || s.last > before.version {
		return false
	}
	s.last = after.version
	return true
}
