package oracle

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// write stores the status of a dirty user.
func (w *world) write(u *user) {
	w.forgetInstants(u)
	if u.unsureSince != 0 && !w.unheard(u) {
		u.unsureSince, u.dirty = 0, true
	}
	if !u.dirty {
		return
	}
	u.dirty = false
	if u.state != schemas.Offline && u.bucket != nil && u.waits == nil && w.full(u) <= w.reached-w.present {
		u.bucket = nil
	}
	s := schemas.Status{User: u.id, State: u.published.state, Since: u.since, LastSeen: u.lastSeen,
		LastActive: u.lastActive, Kinds: u.published.kinds, Visibility: visibility(u.published.hidden),
		PublishedAt: u.publishedAt, LeftOut: uint32(u.leftOut), UnsureSince: u.unsureSince,
		Version: schemas.NewVersion(w.epoch, w.offset-w.base, w.caused[u.id]) - 1}
	if u.silent {
		s.SilentFrom, s.Held, s.Drained, s.Device = u.silentFrom, schemas.Millis(u.held), u.drained, u.silentDevice
	}
	if u.bucket != nil {
		s.PolicyAt = w.policyFrom
		s.Bucket = schemas.Bucket{At: u.bucket.at, Lacks: schemas.Millis(u.bucket.lacks)}
	}
	if p := u.waits; p != nil {
		s.Since = p.since
		s.Pending = schemas.Pending{State: u.state, Kinds: u.kinds, Visibility: visibility(u.hidden), Since: u.since,
			KindsAt: p.kindsAt, VisibilityAt: p.visibilityAt, Cause: p.cause, Device: p.device,
			KindsDevice: p.kindsDevice, Evicted: p.kindsCause == schemas.DeviceEvicted}
	}
	for _, r := range u.of(0) {
		s.Presumed = schemas.Presumed{At: r.seen, Active: r.seen - r.idle, Kinds: s.Presumed.Kinds.With(r.kind)}
	}
	s.ShownAt = w.shown[u.id]
	left := s.State == schemas.Offline && s.Visibility == schemas.Everyone && u.waits == nil
	if left {
		s.PublishedAt = max(s.PublishedAt, s.Since)
	}
	if _, judged := w.judged[u.id]; judged {
		s.JudgedFrom = s.Version // of any record
	} else if left && u.bucket == nil {
		s = schemas.Status{User: s.User, State: s.State, Visibility: s.Visibility, Version: s.Version, ShownAt: s.ShownAt,
			PublishedAt: s.PublishedAt}
	}
	w.store(s)
}

// store stores a status.
func (w *world) store(s schemas.Status) {
	if before := w.statuses[s.User].UnsureSince; before != s.UnsureSince {
		w.unsure = append(w.unsure, Unsure{User: s.User, Offset: w.offset, Since: s.UnsureSince})
	}
	w.statuses[s.User] = s
	if !s.Nameless() {
		delete(w.unsaved, s.User)
	}
	if s.Tombstone() { // which may have a header
		return
	}
	w.statusEpoch = max(w.statusEpoch, s.Version.LogEpoch())
}

// restart returns the world after a lossy restart, and the indices of records that are handled
// again there before the next one. Heartbeats that were handled are not re-read: only statuses
// restore users.
func (w *world) restart(loss Loss) (n *world, again []int) {
	n = newWorld(w.log)
	n.out, n.newest, n.newestBase, n.statuses, n.statusEpoch = w.out, w.newest, w.newestBase, w.statuses, w.statusEpoch
	n.names, n.left, n.tenants, n.judged, n.judgedAt = w.names, w.left, w.tenants, w.judged, w.judgedAt
	n.unsure, n.offset = w.unsure, w.offset
	n.epoch, n.base = w.epoch, w.base
	next := loss.Before + loss.Skip
	if loss.Commit {
		known := w.handled(loss.Kept)
		if again = loss.Kept[known:]; len(again) > 0 {
			next = again[0]
		}
		n.pass(loss.Kept[:known])
	} else {
		n.setPolicy(w.policy)
		n.policyFrom = w.policyFrom
		n.now = w.now
	}
	published := w.publishedEpoch()
	if loss.Commit && published == 0 {
		n.epoch, n.base = w.log.LogEpoch, 0
	} else if loss.Commit || loss.Epoch {
		n.endWaiting()
		n.epoch, n.base = w.epoch+1, 0
		if loss.Commit {
			n.epoch = published + 1
		}
		if next < len(w.log.Records) && w.log.Records[next].Offset > schemas.MaxVersionOffset/2 {
			n.base = w.log.Records[next].Offset
		}
	}
	n.adopt()
	if loss.Commit {
		n.continueFrom(n.latest())
	}
	n.x = n.presence(n.now) - n.lateness
	if n.stopped != 0 {
		n.x = n.presence(n.now)
	}
	n.presume()
	return n, again
}

// pass applies only the time and the policy of records that had been handled before the commit was
// lost.
func (w *world) pass(indices []int) {
	for _, i := range indices {
		r := &w.log.Records[i]
		f, counts := w.log.read(r, max(w.now, r.Time))
		if !counts {
			continue
		}
		w.advance(r.Time, w.breakerLimit)
		if f.Policy != nil && *f.Policy != w.policy {
			w.setPolicy(*f.Policy)
			w.policyFrom = max(w.now, w.policyFrom+1)
		}
	}
}

// handled is how many of the records count as handled after a lost commit.
func (w *world) handled(kept []int) int {
	if i := slices.Index(kept, w.newest); i >= 0 && w.newestBase == 0 {
		return i + 1
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

// publishedEpoch is the greatest log epoch of transitions and statuses, also of superseded
// statuses: the topic has them until it is compacted.
func (w *world) publishedEpoch() uint32 {
	epoch := w.statusEpoch
	for i := range w.out {
		epoch = max(epoch, w.out[i].Version.LogEpoch())
	}
	return epoch
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
		latest = max(latest, u.since, u.lastSeen, u.lastActive, u.publishedAt)
		if u.bucket != nil {
			latest = max(latest, u.bucket.at)
		}
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
		u := w.user(id)
		u.shown = shown{s.State, s.Kinds, s.Visibility == schemas.Nobody}
		u.published = u.shown
		u.since, u.lastActive, u.lastSeen = s.Since, s.LastActive, s.LastSeen
		if s.ShownAt != 0 {
			w.shown[id] = s.ShownAt
		}
		u.publishedAt, u.leftOut = s.PublishedAt, int(s.LeftOut)
		if s.State == schemas.Offline && s.Visibility == schemas.Everyone && s.Pending.State == 0 {
			u.since, u.publishedAt = max(s.Since, s.PublishedAt), 0
		}
		switch {
		case s.State != schemas.Offline && s.Pending.State == 0 && s.PolicyAt != w.policyFrom:
		case s.Bucket.Lacks > 0:
			u.bucket = &bucket{s.Bucket.At, millis(s.Bucket.Lacks)}
		}
		if p := s.Pending; p.State != 0 {
			u.waits = &waits{since: s.Since, cause: p.Cause, device: p.Device, kindsDevice: p.KindsDevice,
				kindsAt: p.KindsAt, visibilityAt: p.VisibilityAt, kindsCause: schemas.DevicesChanged}
			if p.Evicted {
				u.waits.kindsCause = schemas.DeviceEvicted
			}
			u.shown, u.since = shown{p.State, p.Kinds, p.Visibility == schemas.Nobody}, p.Since
		}
		if s.SilentFrom != 0 {
			u.silent, u.silentFrom, u.held = true, s.SilentFrom, millis(s.Held)
			u.drained, u.silentDevice = s.Drained, s.Device
		}
	}
}

// presume gives reports to users who are present: of the kinds in their statuses, heard now.
func (w *world) presume() {
	for _, id := range w.ids() {
		u := w.users[id]
		if u.state != schemas.Offline && !u.silent {
			w.presumeReports(u)
			w.presumed = append(w.presumed, u)
		}
		w.forget(u)
	}
}

func (w *world) presumeReports(u *user) {
	kinds := u.kinds
	if kinds == 0 {
		kinds = kinds.With(schemas.Other)
	}
	var idle schemas.Millis
	if u.state == schemas.Away {
		idle = schemas.Millis(w.of(u).idleAfter)
	}
	for _, kind := range kinds.Append(nil) {
		u.reports = append(u.reports, &report{kind: kind, seen: w.now, idle: idle})
	}
	u.lastSeen = max(u.lastSeen, w.now)
}

// writePresumed writes the statuses of users with presumed reports.
func (w *world) writePresumed() {
	for _, u := range w.presumed {
		u.dirty = true
		w.write(u)
	}
	w.presumed = nil
}
