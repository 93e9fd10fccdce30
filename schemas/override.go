package schemas

import (
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Override is what a user asks to be shown as, and what others learn of when the user was last here. The zero value is
// neither. One without a State has LastSeen and Audience alone.
type Override struct {
	State OverrideState
	Until Millis // log time at which it ends by itself; 0: never
	Note  string // at most MaxNote bytes, of the user's own
	// Automatic is, with SetAway, the state without the override.
	Automatic State
	// Hides: the override is Invisible, and the user would be visible without it.
	Hides bool
	// LastSeen is 0, SeenCoarsely or SeenNever, and in transitions SeenByPolicy. It stays when the override ends.
	LastSeen LastSeen
	// Audience is the version of the user's newest transition with Denies; 0: the user has never denied anybody. It stays
	// when the override ends.
	Audience Version
}

// MaxNote bounds the note of an override, in bytes.
const MaxNote = 256

// AskedOverride is an override as users ask for it and read it, in JSON.
type AskedOverride struct {
	State string `json:"state"`           // dnd, away or invisible
	Until Millis `json:"until,omitempty"` // when it ends by itself; 0: never
	Note  string `json:"note,omitempty"`  // at most MaxNote bytes, of the user's own
}

// Asked is o without what follows from the user's presence and visibility; nil: none.
func (o Override) Asked() *AskedOverride {
	if o.State == 0 {
		return nil
	}
	return &AskedOverride{OverrideWord(o.State), o.Until, o.Note}
}

// Check returns why nobody may ask for o, a *FieldError; nil: one may.
func (o Override) Check() error { return o.check("") }

// ForOthers is what others know of o: that the user does not want to be disturbed, and what stays of it.
func (o Override) ForOthers() Override {
	others := o.Staying()
	if o.State == DoNotDisturb {
		others.State = DoNotDisturb
	}
	return others
}

// Staying is what stays of o when the override ends.
func (o Override) Staying() Override { return Override{LastSeen: o.LastSeen, Audience: o.Audience} }

// HideOverride leaves of t what others may know of the override, and so not what the state is without it.
func (t *Transition) HideOverride() {
	if t.Override.State == SetAway && t.From == t.To {
		switch t.Cause {
		case VisibilityChange, OverrideSet, DeviceEvicted, LastSeenSet, AudienceSet:
		default:
			t.Cause = DevicesChanged
		}
	}
	t.Override = t.Override.ForOthers()
}

// Shown is what others see of a user in a state.
func (o Override) Shown(state State) State {
	if o.State == SetAway && state == Online {
		return Away
	}
	return state
}

// OverrideWord is "dnd", "away" or "invisible"; empty: none.
func OverrideWord(s OverrideState) string {
	if s == 0 {
		return ""
	}
	return wordOf(overrideWords, s)
}

// ParseOverride reads what OverrideWord writes; field names it in the error.
func ParseOverride(field, text string) (OverrideState, error) {
	return parseWord[OverrideState](overrideWords, field, text)
}

// check holds o to the rules of frame.proto; field is what comes before those of the message.
func (o Override) check(field string) error {
	switch {
	case o.State < 0 || o.State > Invisible:
		return Invalid(field+"state", "unknown state "+strconv.Itoa(int(o.State)))
	case o.Until < 0 || o.Until > maxMillis:
		return Invalid(field+"until_ms", millisRange)
	case len(o.Note) > MaxNote:
		return Invalid(field+"note", "must have at most "+strconv.Itoa(MaxNote)+" bytes")
	case strings.ContainsRune(o.Note, 0):
		return Invalid(field+"note", "must not contain the character 0, which databases refuse")
	case o.State == 0 && (o.Until != 0 || o.Note != ""):
		return Invalid(field+"state", "must be set with an end or a note")
	}
	return nil
}

// checkPublished holds o to the rules of transition.proto.
func (o Override) checkPublished() error {
	switch {
	case o.Automatic < 0 || o.Automatic > Online || (o.Automatic != 0) != (o.State == SetAway):
		return Invalid("automatic", "must be a state, and goes with away")
	case o.Hides && o.State != Invisible:
		return Invalid("override_hides", "goes with invisible")
	case o.Audience < 0:
		return Invalid("audience_version", "must not be negative")
	case o.LastSeen < 0 || o.LastSeen > SeenNever:
		return Invalid("last_seen", "must be POLICY, COARSE or NEVER, or unspecified")
	}
	return o.check("override.")
}

// walk lists the fields of o in a message that has them from n on; the note is the third.
func (o *Override) walk(c *codec, n protowire.Number) {
	number(c, n, &o.State)
	number(c, n+1, &o.Until)
	if c.reading {
		o.Note = string(c.text(n + 2))
	} else {
		c.string(n+2, o.Note)
	}
	number(c, n+3, &o.Automatic)
	c.flag(n+4, &o.Hides)
	number(c, n+5, &o.LastSeen)
	number(c, n+6, &o.Audience)
}

// overrideText is an override in JSON.
type overrideText struct {
	State     string `json:"state,omitempty"`
	Until     Millis `json:"until,omitempty"`
	Note      string `json:"note,omitempty"`
	Automatic string `json:"automatic,omitempty"`
	Hides     bool   `json:"hides,omitempty"`
	LastSeen  string `json:"last_seen,omitempty"`
	Audience  int64  `json:"audience,omitempty,string"`
}

// Text is o in JSON, for stores; empty: none.
func (o Override) Text() string {
	if o == (Override{}) {
		return ""
	}
	text := overrideText{State: OverrideWord(o.State), Until: o.Until, Note: o.Note, Hides: o.Hides,
		Audience: int64(o.Audience)}
	if o.LastSeen != 0 {
		text.LastSeen = LastSeenWord(o.LastSeen)
	}
	if o.Automatic != 0 {
		text.Automatic = StateWord(o.Automatic)
	}
	encoded, _ := json.Marshal(text) // it has no other values
	return string(encoded)
}

// OverrideOf reads what Text writes.
func OverrideOf(stored string) (o Override, err error) {
	var text overrideText
	if stored == "" {
		return o, nil
	}
	if err = json.Unmarshal([]byte(stored), &text); err == nil && text.State != "" {
		o.State, err = ParseOverride("override.state", text.State)
	}
	if err == nil && text.Automatic != "" {
		o.Automatic, err = ParseState("override.automatic", text.Automatic)
	}
	if err == nil && text.LastSeen != "" {
		o.LastSeen, err = parseWord[LastSeen](lastSeenWords, "override.last_seen", text.LastSeen)
	}
	o.Until, o.Note, o.Hides, o.Audience = text.Until, text.Note, text.Hides, Version(text.Audience)
	return o, err
}
