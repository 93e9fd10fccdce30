package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// write stores the status of a dirty user: what was published last.
func (w *world) write(u *user) {
	w.forgetInstants(u)
	w.updateUnsure(u)
	if !u.dirty {
		return
	}
	u.dirty = false
	s := schemas.Status{User: u.id, State: u.published.seen(), Since: u.since, LastSeen: u.lastSeen,
		LastActive: u.lastActive, Kinds: u.published.kinds, Visibility: visibility(u.published.hidden()),
		UnsureSince: u.unsureSince, ShownAt: w.shown[u.id], Override: u.published.overridden()}
	w.store(s)
}

// store stores a status.
func (w *world) store(s schemas.Status) {
	if before := w.statuses[s.User].UnsureSince; before != s.UnsureSince {
		w.unsure = append(w.unsure, Unsure{User: s.User, Offset: w.offset, Since: s.UnsureSince})
	}
	w.written++
	w.statuses[s.User] = s
	if !s.Absent() {
		delete(w.unsaved, s.User)
	}
}

// restart returns the world after a lossy restart, and the indices of records that are handled
// again there before the next one. Heartbeats that were handled are not re-read: only statuses
// restore users.
func (w *world) restart(loss Loss) (n *world, again []int) {
	n = newWorld(w.log)
	n.out, n.newest, n.newestBase, n.newestEpoch, n.statuses, n.kept = w.out, w.newest, w.newestBase, w.newestEpoch, w.statuses, w.kept
	n.names, n.left, n.tenants = w.names, w.left, w.tenants
	n.unsure, n.offset = w.unsure, w.offset
	n.epoch, n.base = w.epoch, w.base
	if w.kept != 0 {
		n.setPolicy(w.policy)
	}
	next := loss.Before + loss.Skip
	if loss.Commit {
		known := w.handled(loss.Kept)
		if again = loss.Kept[known:]; len(again) > 0 {
			next = again[0]
		}
		n.pass(loss.Kept[:known])
	} else {
		n.policyFrom, n.now = w.policyFrom, w.now
	}
	switch {
	case loss.Commit && w.kept == 0:
		n.epoch, n.base = w.log.LogEpoch, 0
	case loss.Commit, loss.Epoch:
		if n.epoch, n.base = w.epoch+1, 0; loss.Commit {
			n.epoch = w.kept + 1
		}
		if next < len(w.log.Records) && w.log.Records[next].Offset > schemas.MaxVersionOffset/2 {
			n.base = w.log.Records[next].Offset
		}
	}
	n.adopt()
	if loss.Commit {
		n.continueFrom(n.latest())
	}
	n.restartedAt = n.now
	n.x = n.presence(n.now) - n.lateness
	if n.stopped != 0 {
		n.x = n.presence(n.now)
	}
	n.presume()
	return n, again
}

// pass applies only the time of records that had been handled before the commit was lost.
func (w *world) pass(indices []int) {
	for _, i := range indices {
		r := &w.log.Records[i]
		if _, counts := w.log.read(r, max(w.now, r.Time)); counts {
			w.advance(r.Time, w.breakerLimit)
		}
	}
}

// handled is how many of the records count as handled after a lost commit.
func (w *world) handled(kept []int) int {
	if i := slices.Index(kept, w.newest); i >= 0 && w.newestBase == 0 && w.newestEpoch == w.kept {
		return i + 1
	}
	if len(w.out) == 0 {
		return 0
	}
	latest, now := w.latestChange(), schemas.Millis(0)
	later := func(i int) bool {
		r := &w.log.Records[i]
		_, counts := w.log.read(r, max(now, r.Time))
		if counts {
			now = max(now, r.Time)
		}
		return r.Time > latest && counts
	}
	if n := slices.IndexFunc(kept, later); n >= 0 {
		return n
	}
	return len(kept)
}

// latestChange is the latest instant of a transition.
func (w *world) latestChange() (latest schemas.Millis) {
	for i := range w.out {
		latest = max(latest, w.out[i].At)
	}
	return latest
}

// latest is the latest instant of a transition or that is known of a user.
func (w *world) latest() schemas.Millis {
	latest := w.latestChange()
	for _, u := range w.users {
		latest = max(latest, u.since, u.lastSeen, u.lastActive)
	}
	return latest
}

// continueFrom advances the clock to at least an instant.
func (w *world) continueFrom(latest schemas.Millis) {
	if latest > w.now {
		w.advance(latest, w.breakerLimit)
	}
}

// adopt restores users from their statuses.
func (w *world) adopt() {
	for id, s := range w.statuses {
		if s.ShownAt != 0 {
			w.shown[id] = s.ShownAt
		}
		if s.Absent() {
			continue
		}
		u := w.user(id)
		u.shown = shown{s.State, s.Kinds, s.Visibility == schemas.Nobody && !s.Override.Hides, s.Override}
		if s.Override.State == schemas.SetAway {
			u.state = s.Override.Automatic
		}
		u.override.Automatic, u.override.Hides = 0, false
		u.published = u.shown
		u.since, u.lastActive, u.lastSeen, u.unsureSince = s.Since, s.LastActive, s.LastSeen, s.UnsureSince
	}
	for _, t := range w.tenants {
		t.from = 0
	}
	for id, name := range w.names {
		if w.tenants[name.Tenant] != nil {
			w.judged[id] = name.Tenant
		}
	}
}

// presume gives reports to users who are present: of the kinds in their statuses, heard now.
func (w *world) presume() {
	for _, id := range w.ids() {
		u := w.users[id]
		if u.forgetPresence(); u.state != schemas.Offline {
			w.presumeReports(u)
		}
	}
}

func (w *world) presumeReports(u *user) {
	kinds := u.kinds
	if kinds == 0 {
		kinds = kinds.With(schemas.Other).As(u.state)
	}
	for _, kind := range kinds.Append(nil) {
		var idle schemas.Millis
		if !slices.Contains(kinds.Active().Append(nil), kind) {
			idle = schemas.Millis(w.of(u).idleAfter)
		}
		u.reports = append(u.reports, &report{kind: kind, seen: w.now, told: w.now, idle: idle})
	}
	u.lastSeen = max(u.lastSeen, w.now)
}
