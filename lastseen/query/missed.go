package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// maxMissed is how many missed changes are worth listing. With more, the current states say as
	// much at less cost.
	maxMissed = 5000
	// pageLength is the greatest number of changes in one answer.
	pageLength = 1000
	// maxDelay bounds, in log time, how long after its instant a change may be published: the heartbeat
	// may be old when it comes, and a user who changes too often waits. The rest is for lateness and the turns of devices of lost gateways.
	maxDelay = schemas.MaxAge + schemas.Millis(schemas.LongestWait/time.Millisecond) + schemas.Millis(6*time.Hour/time.Millisecond)
)

// Why a reader gets the current states in place of changes.
const (
	resyncStart     = "start"     // the reader has no cursor
	resyncUnknown   = "unknown"   // the cursor is of another deployment or of other users
	resyncRetention = "retention" // the log of changes begins after the cursor
	resyncLogEpoch  = "log_epoch" // the heartbeats topic was recreated; changes may be lost between
	resyncTooMany   = "too_many"  // more than maxMissed changes
)

// missed is what happened to users after a position.
type missed struct {
	// changes are ordered by user and version.
	changes []schemas.Presence
	// resync is why there are no changes; "": there are all.
	resync string
	// more says that next is before the end.
	more bool
	next cursor.Position
	// stale is since when changes may be missing at the end; 0: none are.
	stale schemas.Millis
}

// missed returns what is visible of the changes of users, which are ascending, after p. current are
// the answers for them. It is the one place that decides which past changes a reader gets. Of a
// hidden user that is the hide alone, of a withheld user nothing.
func (r *Reader) missed(ctx context.Context, v Viewer, users []schemas.UserID, current []answer, withheld []bool, p cursor.Position,
) (missed, error) {
	m := missed{next: cursor.Position{At: p.At, Versions: make([]schemas.Version, len(users))}}
	copy(m.next.Versions, p.Versions)
	query := store.MissedQuery{From: max(0, p.At-maxDelay), Limit: maxMissed + 1}
	for i := range users {
		if after := p.Versions[i]; !withheld[i] && after != cursor.Withheld && !current[i].hidden() && current[i].shown() > after {
			query.Users, query.After = append(query.Users, users[i]), append(query.After, after)
		}
	}
	var log store.Missed
	if len(query.Users) > 0 {
		var err error
		if log, err = r.durable.Missed(ctx, query); err != nil {
			return m, err
		}
		if m.resync = r.unlistable(users, current, p, log); m.resync == "" && query.From < log.Begins {
			m.resync, err = r.lacking(ctx, query)
		}
		if err != nil || m.resync != "" {
			return m, err
		}
	}
	logged := byUser(users, log.Changes)
	if mark(current, logged) { // of a list that is newer than the answers
		if err := r.withhold(ctx, v, users, current); err != nil {
			return m, err
		}
		for i := range current {
			withheld[i] = withheld[i] || current[i].denied
		}
	}
	for i, changes := range logged {
		if v.User != 0 && !v.seesHidden(users[i]) { // who is not denied may have been before the newest change of the list
			changes = slices.DeleteFunc(changes, func(t *schemas.Transition) bool {
				return t.Version < current[i].Override.Audience
			})
		}
		listed := r.listed(&current[i], withheld[i], p.Versions[i], changes)
		if room := pageLength - len(m.changes); len(listed) > room {
			listed, m.more = listed[:room], true
		}
		if m.changes = append(m.changes, listed...); len(listed) > 0 {
			m.next.Versions[i] = listed[len(listed)-1].VersionNumber()
			if v := current[i].erased; v != 0 {
				m.next.Versions[i] = cursor.Erased(v)
			}
		}
		if m.more { // of a withheld user nothing is in the page then
			return m, nil
		}
		if withheld[i] {
			m.next.Versions[i] = cursor.Withheld
		}
	}
	m.settle(current, withheld)
	return m, nil
}

// mark gives answers the audience versions of changes that were read after them, where these are greater, and reports
// whether one is.
func mark(answers []answer, logged [][]*schemas.Transition) (greater bool) {
	for i, changes := range logged {
		for _, t := range changes {
			if o := &answers[i].Override; t.Override.Audience > o.Audience {
				o.Audience, greater = t.Override.Audience, true
			}
		}
	}
	return greater
}

// unlistable returns why changes cannot be listed, or "".
func (r *Reader) unlistable(users []schemas.UserID, current []answer, p cursor.Position, log store.Missed) string {
	if len(log.Changes) > maxMissed {
		return resyncTooMany
	}
	epochs := make(map[int32]uint32) // the newest that the reader knows of each partition
	for i, user := range users {
		partition := schemas.PartitionOf(user, r.partitions)
		epochs[partition] = max(epochs[partition], p.Versions[i].LogEpoch())
	}
	later := func(user schemas.UserID, v schemas.Version) bool {
		known := epochs[schemas.PartitionOf(user, r.partitions)]
		return known != 0 && v.LogEpoch() > known
	}
	for i, user := range users {
		if later(user, current[i].shown()) {
			return resyncLogEpoch
		}
	}
	for _, t := range log.Changes {
		if later(t.User, t.Version) {
			return resyncLogEpoch
		}
	}
	return ""
}

// lacking is resyncRetention unless the log still has the change that each of the users was last given, or has
// not got it yet. Then it has all that came after: no change has an instant before that of its user's previous one.
func (r *Reader) lacking(ctx context.Context, query store.MissedQuery) (resync string, err error) {
	given := store.MissedQuery{Users: query.Users, After: slices.Clone(query.After), Limit: query.Limit + len(query.Users)}
	for i := range given.After {
		given.After[i]--
	}
	log, err := r.durable.Missed(ctx, given)
	if err != nil {
		return "", err
	}
	var others store.MissedQuery
	for i, changes := range byUser(query.Users, log.Changes) {
		// A rebuild may write changes from before the beginning again, the older first.
		if len(changes) == 0 || changes[0].Version != query.After[i] || changes[0].At < log.Begins {
			others.Users, others.After = append(others.Users, query.Users[i]), append(others.After, query.After[i])
		}
	}
	if len(others.Users) == 0 {
		return "", nil
	}
	stored, err := r.durable.Users(ctx, others.Users)
	for i, user := range others.Users {
		if stored[user].Version >= others.After[i] {
			resync = resyncRetention
		}
	}
	return resync, err
}

// byUser are the changes of each user, which are ordered as the users are.
func byUser(users []schemas.UserID, changes []*schemas.Transition) [][]*schemas.Transition {
	parts := make([][]*schemas.Transition, len(users))
	for i, user := range users {
		n := 0
		for n < len(changes) && changes[n].User == user {
			n++
		}
		parts[i], changes = changes[:n], changes[n:]
	}
	return parts
}

// listed is what a reader who was given after gets of a user.
func (r *Reader) listed(now *answer, withheld bool, after schemas.Version, changes []*schemas.Transition) []schemas.Presence {
	switch {
	case withheld && after == cursor.Withheld:
		return nil
	case withheld || after == cursor.Withheld || now.hidden() && now.shown() > after:
		return []schemas.Presence{r.presence(now, withheld)}
	case now.hidden():
		return nil
	case !now.seen && now.stale == 0 && after.OfChange() && after != 0: // who was there was erased
		return []schemas.Presence{now.ordered()}
	}
	users := make([]schemas.Presence, len(changes))
	var before schemas.Current
	stayed := 0 // how many changes left the state as it was, up to the first that did not
	for i, t := range changes {
		c := before.After(t)
		c.LastSeen, c.LastActive = max(before.LastSeen, t.LastSeen), max(before.LastActive, t.LastActive)
		c.Override.Limit(false)
		c.Override.LastSeen = max(c.Override.LastSeen, now.Override.LastSeen) // as the user shows it by now
		c.Override.Audience = max(c.Override.Audience, now.Override.Audience)
		switch changed := t.From != t.To || t.Cause == schemas.VisibilityChange; {
		case changed:
			c.Since = t.At
		case i == stayed:
			c.Since = 0
			stayed++
		}
		users[i], before = schemas.PresenceOf(c, 0, schemas.MillisOf(time.Now())), c
	}
	if stayed == len(changes) && before.Version == now.Version {
		for i := range users {
			users[i].Since = now.Since
		}
	}
	for i := range users { // of one who does not show times, only the present state says since when it is
		if users[i].LastSeen != "" && (now.State != schemas.Online || users[i].VersionNumber() != now.Version) {
			users[i].Since = 0
		}
	}
	if n := len(users) - 1; n >= 0 && before.Version == now.Version && now.present() {
		users[n].UnsureSince = now.unsure
	}
	return users
}

// settle moves the position's instant if all that was known is in the answer.
func (m *missed) settle(current []answer, withheld []bool) {
	complete, upTo := true, schemas.Millis(math.MaxInt64)
	for i := range current {
		if c := &current[i]; !withheld[i] {
			complete = complete && m.next.Versions[i] >= c.shown()
			upTo = min(upTo, c.upTo)
		}
		if c := &current[i]; c.stale != 0 && (m.stale == 0 || c.stale < m.stale) {
			m.stale = c.stale
		}
	}
	switch since := cmp.Or(m.next.At, schemas.MillisOf(time.Now())); {
	case complete && upTo < math.MaxInt64:
		m.next.At = max(m.next.At, upTo)
	case !complete && (m.stale == 0 || since < m.stale):
		m.stale = since // the store is behind Redis
	}
}

// resynced is where a reader is who is given the current states.
func resynced(current []answer, withheld []bool) missed {
	m := missed{next: cursor.Position{Versions: make([]schemas.Version, len(current))}}
	for i := range current {
		if m.next.Versions[i] = current[i].shown(); withheld[i] {
			m.next.Versions[i] = cursor.Withheld
		}
	}
	m.settle(current, withheld)
	return m
}

// presence is how others see the user of an answer.
func (r *Reader) presence(a *answer, withheld bool) schemas.Presence {
	c := *a
	if withheld && !a.denied {
		c = answer{Current: schemas.Current{User: a.User, Visibility: schemas.Nobody}, seen: true}
	} else if r.config.HiddenOffline && a.hidden() {
		c.Current = asOffline(a.Current)
	}
	return c.presence(a.User)
}

func (a *answer) hidden() bool { return a.seen && a.Visibility == schemas.Nobody }

// shown is the version that others see.
func (a *answer) shown() schemas.Version {
	switch {
	case !a.seen:
		return 0
	case a.hidden():
		return a.Hidden
	}
	return a.Version
}

// Missed is missed for viewers who may see all of users, who are of one tenant; resync says that the changes cannot be
// listed. An answer that ends before the newest change is not an error: the store may be behind.
func (r *Reader) Missed(ctx context.Context, tenant string, users []schemas.UserID, p cursor.Position,
) (changes []schemas.Presence, resync bool, err error) {
	current, err := r.read(ctx, users)
	if err != nil {
		return nil, false, err
	}
	r.limit(tenant, current)
	r.addUnsure(ctx, users, current)
	for i, user := range users {
		current[i].User = user // also of those of whom nothing is known
	}
	m, err := r.missed(ctx, Viewer{}, users, current, make([]bool, len(users)), p)
	return m.changes, m.resync != "" || m.more, err
}
