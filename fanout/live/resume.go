package live

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/schemas"
)

// tries are the pauses before the durable store is asked what a viewer missed. It may be behind the
// channel by the time that the sink collects changes, and now and then by more.
var tries = []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}

// reply is the answer to a subscribe. Owned by work.
type reply struct {
	viewer *viewer
	// after is where the viewer resumes; nil: nowhere.
	after  map[schemas.UserID]schemas.Version
	at     schemas.Millis // of that position
	before schemas.Millis // of the trail before the request
	now    schemas.Millis // of what was read
	kind   string         // of the messages with states
	missed int
}

// replyTo begins the answer to r. If its messages shall carry cursors, the viewer has a trail from now on.
func (v *viewer) replyTo(r request) *reply {
	p := &reply{viewer: v, kind: "snapshot", now: math.MaxInt64}
	if !r.cursors || v.hub.Keys == nil {
		return p
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.hub.cfg.ReadTimeout)
	defer cancel()
	if !v.interruptible(cancel) {
		return p
	}
	key, err := v.hub.Keys.Key(ctx)
	if err != nil {
		v.hub.Log.Warn("the key of cursors cannot be read; a stream goes on without cursors, and its client begins with a snapshot next time", "error", err)
		return p
	}
	if v.trail == nil {
		v.trail = &trail{key: key, fixed: r.once, position: cursor.Position{At: math.MaxInt64}}
	}
	if r.since == nil {
		return p
	}
	asked := slices.Clone(r.ids)
	slices.Sort(asked)
	position, ours := r.since.Open(key, asked)
	if !ours {
		p.kind = "resync"
		return p
	}
	p.after, p.at = make(map[schemas.UserID]schemas.Version, len(asked)), position.At
	for i, id := range asked {
		p.after[id] = position.Versions[i]
		v.trail.set(id, position.Versions[i])
	}
	p.before = v.trail.position.At
	v.trail.position.At = min(p.before, p.at) // while changes are missing
	return p
}

// refused notes users whom the viewer may not watch.
func (p *reply) refused(users []schemas.UserID) {
	if p.viewer.trail != nil {
		p.viewer.trail.leave(users, true)
	}
}

// send sends what the viewer gets of users who have just been settled as sent: what it has missed of
// them, or their states. Changes newer than that are queued already and follow.
func (p *reply) send(ctx context.Context, sent []*state) error {
	v := p.viewer
	if v.trail == nil {
		return v.sendUsers(p.kind, sent)
	}
	p.now = min(p.now, upTo(sent))
	if p.after == nil {
		v.trail.position.At = min(v.trail.position.At, p.now)
		for _, st := range sent {
			v.trail.set(st.presence.UserID, schemas.Version(st.version))
		}
		return v.sendUsers(p.kind, sent)
	}
	for _, st := range sent {
		user := st.presence.UserID
		v.subs[user].raise(p.after[user])
	}
	// A stale state that is older than what the viewer has would go back: nothing is known that the viewer lacks.
	sent = slices.DeleteFunc(sent, func(st *state) bool {
		after := p.after[st.presence.UserID]
		return !p.onlyPresent(st) && st.stale() && st.version < int64(after)
	})
	changes, ok := p.changes(ctx, sent)
	if !ok {
		return v.sendUsers("resync", sent)
	}
	p.missed += len(changes)
	for _, st := range changes {
		if err := v.sendState(st); err != nil {
			return err
		}
	}
	if unsure := p.unsure(sent); len(unsure) > 0 {
		return v.sendUsers("resync", unsure)
	}
	return nil
}

// unsure returns the users of lost gateways who have not changed: that they are unsure has no version by
// which it could be missed. Of a stale state it may not be known.
func (p *reply) unsure(sent []*state) (unsure []*state) {
	for _, st := range sent {
		after := p.after[st.presence.UserID]
		if !p.onlyPresent(st) && st.version <= int64(after) && (st.presence.UnsureSince != 0 || st.stale()) {
			unsure = append(unsure, st)
		}
	}
	return unsure
}

// onlyPresent reports whether the viewer gets the present state in place of what it has missed: it could not see the
// user at its cursor, or cannot now, or the list of those who cannot has changed meanwhile.
func (p *reply) onlyPresent(st *state) bool {
	after := p.after[st.presence.UserID]
	listChanged := !p.viewer.seesAll() && st.presence.Audience > after && st.version > int64(after)
	return after == cursor.Withheld || st.denied || listChanged
}

// end ends the answer.
func (p *reply) end() error {
	v := p.viewer
	if p.after == nil {
		return nil
	}
	v.trail.position.At = min(p.before, p.now)
	return v.sendWith(v.trail.cursor(), resumedMessage(p.missed))
}

// raise keeps the viewer from getting what it was sent on an earlier connection, if the snapshot is
// older than that.
func (s *sub) raise(version schemas.Version) {
	if version == cursor.Withheld {
		return
	}
	s.viewer.mu.Lock()
	defer s.viewer.mu.Unlock()
	s.base, s.last = max(s.base, int64(version)), max(s.last, int64(version))
}

// changes returns what the viewer has missed up to what was settled, ordered by user and version; false
// if it cannot be listed.
func (p *reply) changes(ctx context.Context, settled []*state) (changes []*state, ok bool) {
	newest := make(map[schemas.UserID]*state) // of those who have changed
	var users []schemas.UserID
	for _, st := range settled {
		user := st.presence.UserID
		switch after := p.after[user]; {
		case p.onlyPresent(st),
			st.version == 0 && !st.stale() && after.OfChange() && after != 0: // the user was erased
			changes = append(changes, st)
		case st.version > int64(after):
			users, newest[user] = append(users, user), st
		}
	}
	if len(users) == 0 {
		return changes, true
	}
	slices.Sort(users)
	after := cursor.Position{At: p.at, Versions: make([]schemas.Version, len(users))}
	for i, user := range users {
		after.Versions[i] = p.after[user]
	}
	for _, pause := range tries {
		if !sleep(ctx, pause) {
			return nil, false
		}
		listed, resync, err := p.viewer.hub.Missed(ctx, p.viewer.tenant, users, after)
		if err != nil {
			p.viewer.hub.Log.Warn("the durable store cannot list what a viewer missed; the viewer gets the states as a resync", "error", err)
		}
		if err != nil || resync {
			return nil, false
		}
		if found, complete := upToSettled(listed, newest); complete {
			return append(changes, found...), true
		}
	}
	return nil, false
}

// upToSettled returns the listed changes up to the settled ones, and whether all lists reach these.
func upToSettled(listed []schemas.Presence, settled map[schemas.UserID]*state) (found []*state, complete bool) {
	reached := make(map[schemas.UserID]bool, len(settled))
	for _, p := range listed {
		end := settled[p.UserID]
		switch version := versionOf(p); {
		case version < end.version:
			p.Name = end.presence.Name
			found = append(found, newState(p))
			continue
		case version == end.version:
			found = append(found, end)
		}
		reached[p.UserID] = true // the rest comes through the channel
	}
	return found, len(reached) == len(settled)
}

// sleep returns false if ctx has ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func resumedMessage(missed int) []byte {
	return []byte(`{"type":"resumed","missed":` + strconv.Itoa(missed) + `}`)
}
