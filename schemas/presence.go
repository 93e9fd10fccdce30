package schemas

import "strconv"

// Presence is a user as the HTTP and socket APIs show it: the USER of their messages. PresenceOf
// and NeverSeen construct it; they leave out what a hidden user does not show.
type Presence struct {
	UserID UserID `json:"user_id,string"`
	// State is "online", "away" or "offline"; nil for a hidden user.
	State        *string  `json:"state"`
	LastSeenAt   Millis   `json:"last_seen_at"`
	LastActiveAt Millis   `json:"last_active_at"`
	Devices      []string `json:"devices"`
	// Kinds has the state of each of Devices: a kind is online while a person uses a device of it.
	Kinds KindStates `json:"kinds"`
	Since Millis     `json:"since"`
	// Version is in decimal; "0" if nothing is known of the user.
	Version string `json:"version"`
	// LastSeen is set where the user, or the policy, does not let others learn times: "recently" (also while present),
	// "within_a_week", "within_a_month", "long_ago" or "hidden". LastSeenAt and LastActiveAt are 0 then, and so is Since
	// unless the user is online. In a change it is also empty where that is not known.
	LastSeen string `json:"last_seen,omitempty"`
	// StaleSince is the time since which the state may be out of date; 0 if it is current.
	StaleSince Millis `json:"stale_since"`
	// UnsureSince is set while the user is shown as present by devices of lost gateways alone: since
	// then no gateway can report whether they are still connected. It is left out if it is 0, as for
	// every hidden or offline user, and has no version of its own.
	UnsureSince Millis `json:"unsure_since,omitempty"`
	// DND: the user does not want to be disturbed. It is left out otherwise.
	DND bool `json:"dnd,omitempty"`
	// Name, if it is set, is shown in place of UserID; see Called.
	Name *Name `json:"-"`
	// Audience is Override.Audience: not 0 if the user denies viewers, or did so before.
	Audience Version `json:"-"`
}

// Current is what the stores hold of a user: the newest transition, and what is still needed of
// earlier ones.
type Current struct {
	User       UserID
	State      State
	Since      Millis // when State last changed
	LastSeen   Millis
	LastActive Millis
	Kinds      KindSet
	Visibility Visibility
	Version    Version
	// Hidden is the version of the transition that hid the user; 0 while visible. Readers get it
	// in place of Version, which would reveal that a hidden user's state changes.
	Hidden Version
	// Override is as in the newest Transition; State is what others see.
	Override Override
}

// After is what is known of the user after t, the user's next transition in the log; in the zero
// Current nothing is known. Transitions that are not newer change nothing.
func (c Current) After(t *Transition) Current {
	if t.Version <= c.Version {
		return c
	}
	if t.Cause == Erased {
		return Current{User: t.User, State: Offline, Visibility: Everyone, Version: t.Version}
	}
	next := Current{
		User: t.User, State: t.To, Since: c.Since, LastSeen: t.LastSeen, LastActive: t.LastActive,
		Kinds: t.Kinds, Visibility: t.Visibility, Version: t.Version, Hidden: c.Hidden, Override: t.Override,
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

// PresenceOf is how others see c at now. State, times and devices of a hidden user are null.
func PresenceOf(c Current, staleSince, now Millis) Presence {
	p := Presence{UserID: c.User, Version: c.Version.String(), StaleSince: staleSince, Audience: c.Override.Audience}
	if c.Visibility == Nobody {
		p.Version = c.Hidden.String()
		return p
	}
	state := StateWord(c.State)
	p.State = &state
	p.LastSeenAt, p.LastActiveAt, p.LastSeen = c.Override.Learned(c.State, c.LastSeen, c.LastActive, now)
	if p.LastSeen == "" || c.State == Online {
		p.Since = c.Since
	}
	p.Devices, p.Kinds = c.Kinds.Words(), c.Kinds.States()
	p.DND = c.Override.State == DoNotDisturb
	return p
}

// NeverSeen is how others see an unknown user: offline.
func NeverSeen(id UserID, staleSince Millis) Presence {
	state := StateWord(Offline)
	return Presence{UserID: id, State: &state, Devices: []string{}, Kinds: KindStates{},
		Version: "0", StaleSince: staleSince}
}

// Newer reports whether p is newer than q.
func (p Presence) Newer(q Presence) bool { return p.VersionNumber() > q.VersionNumber() }

// VersionNumber is Version as a number; an unreadable one counts as the oldest.
func (p Presence) VersionNumber() Version {
	n, err := strconv.ParseInt(p.Version, 10, 64)
	if err != nil {
		return 0
	}
	return Version(n)
}
