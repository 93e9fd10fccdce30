package schemas

import "strconv"

// Presence is what the doors say of one user: the USER of the HTTP and socket
// messages. It is always made by PresenceOf or NeverSeen, which hide what must be
// hidden.
type Presence struct {
	UserID UserID `json:"user_id,string"`
	// State is "online", "away" or "offline"; nil for a user who hides.
	State        *string  `json:"state"`
	LastSeenAt   Millis   `json:"last_seen_at"`
	LastActiveAt Millis   `json:"last_active_at"`
	Devices      []string `json:"devices"`
	Since        Millis   `json:"since"`
	// Version is in decimal; "0" when nothing is known of the user.
	Version string `json:"version"`
	// StaleSince is set when the state may be out of date: since when.
	StaleSince Millis `json:"stale_since"`
}

// Current is what the stores keep of a user: the newest transition, and of the
// ones before it what is still needed.
type Current struct {
	User       UserID
	State      State
	Since      Millis // when State last changed
	LastSeen   Millis
	LastActive Millis
	Kinds      KindSet
	Visibility Visibility
	Version    Version
	// Hidden is the version of the transition by which the user hid; 0 while
	// visible. It is shown in place of Version, which would tell the watchers of
	// a hidden user that something goes on.
	Hidden Version
}

// After is what is known of the user after t, which comes right after c in the
// log; the zero Current stands for nothing known. Transitions that are not newer
// change nothing.
func (c Current) After(t *Transition) Current {
	if t.Version <= c.Version {
		return c
	}
	next := Current{
		User: t.User, State: t.To, Since: c.Since, LastSeen: t.LastSeen, LastActive: t.LastActive,
		Kinds: t.Kinds, Visibility: t.Visibility, Version: t.Version, Hidden: c.Hidden,
	}
	if t.From != t.To || c.Version == 0 {
		next.Since = t.At
	}
	switch {
	case t.Visibility != Nobody:
		next.Hidden = 0
	case t.Cause == VisibilityChange || c.Hidden == 0:
		next.Hidden = t.Version
	}
	return next
}

// PresenceOf is how others see c. Of a user who hides, state, times and devices
// are null.
func PresenceOf(c Current, staleSince Millis) Presence {
	p := Presence{UserID: c.User, Version: c.Version.String(), StaleSince: staleSince}
	if c.Visibility == Nobody {
		p.Version = c.Hidden.String()
		return p
	}
	state := StateWord(c.State)
	p.State = &state
	p.LastSeenAt, p.LastActiveAt, p.Since = c.LastSeen, c.LastActive, c.Since
	p.Devices = c.Kinds.Words()
	return p
}

// NeverSeen is how others see a user of whom nothing is known: offline.
func NeverSeen(id UserID, staleSince Millis) Presence {
	state := StateWord(Offline)
	return Presence{UserID: id, State: &state, Devices: []string{}, Version: "0", StaleSince: staleSince}
}

// Newer tells whether p is a later word on the user than q.
func (p Presence) Newer(q Presence) bool {
	return versionNumber(p.Version) > versionNumber(q.Version)
}

// versionNumber reads a version that this program wrote itself; what cannot be
// read counts as the oldest.
func versionNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
