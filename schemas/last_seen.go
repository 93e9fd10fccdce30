package schemas

import "cmp"

// LastSeenWord is "exact", also of 0, "policy", "coarse" or "never".
func LastSeenWord(s LastSeen) string { return wordOf(lastSeenWords, cmp.Or(s, SeenExactly)) }

// ParseLastSeen reads what a user may choose; field names it in the error.
func ParseLastSeen(field, text string) (LastSeen, error) {
	s, err := parseWord[LastSeen](lastSeenWords, field, text)
	if err != nil || s == SeenByPolicy {
		return 0, Invalid(field, "must be one of exact coarse never")
	}
	return s, nil
}

// Learned is what others learn at now of when a user in a state was last seen and active: the instants, or in their
// place a word of Presence.LastSeen.
func (o Override) Learned(s State, seen, active, now Millis) (seenAt, activeAt Millis, word string) {
	switch {
	case o.LastSeen == SeenNever:
		return 0, 0, "hidden"
	case o.Coarse() && s != Offline:
		return 0, 0, now.ago(now)
	case o.Coarse():
		return 0, 0, seen.ago(now)
	}
	return seen, active, ""
}

// Coarse reports whether others learn words in place of instants.
func (o Override) Coarse() bool { return o.LastSeen == SeenCoarsely || o.LastSeen == SeenByPolicy }

// Limit makes LastSeen what others learn under a policy that lets them learn it only coarsely, or not any more.
func (o *Override) Limit(coarse bool) {
	switch {
	case coarse:
		o.LastSeen = max(o.LastSeen, SeenCoarsely)
	case o.LastSeen == SeenByPolicy:
		o.LastSeen = 0
	}
}

const dayMillis Millis = 24 * 60 * 60 * 1000

// day is the beginning of the UTC day of an instant: others do not learn more of a user who shows last seen coarsely.
func (m Millis) day() Millis { return m - m%dayMillis }

// ago is how long ago at was, by the days of both in UTC: "recently" (the day itself and two days after it),
// "within_a_week", "within_a_month", "long_ago", also for no instant. So it changes at midnight, for everybody who was
// seen on one day at once.
func (m Millis) ago(now Millis) string {
	switch days := (now.day() - m.day()) / dayMillis; {
	case days < 3:
		return "recently"
	case days <= 7:
		return "within_a_week"
	case days <= 30:
		return "within_a_month"
	}
	return "long_ago"
}

// learned is what others learn of when the user was last here. It has no word where t does not say that of an offline
// user.
func (t *Transition) learned() (seenAt, activeAt Millis, word string) {
	seenAt, activeAt, word = t.Override.Learned(t.To, t.LastSeen, t.LastActive, t.At)
	if t.LastSeen == 0 && t.To == Offline && t.Override.Coarse() {
		word = ""
	}
	return seenAt, activeAt, word
}

// HideTimes leaves of t what others may learn of when the user was last here, by the override of t.
func (t *Transition) HideTimes() {
	switch {
	case t.Override.Coarse():
		t.LastSeen, t.LastActive = t.LastSeen.day(), 0
	case t.Override.LastSeen == SeenNever:
		t.LastSeen, t.LastActive = 0, 0
	}
}
