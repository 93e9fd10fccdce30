package schemas

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Notice is one change and its recipients: what a notification channel delivers. It must not be
// modified.
type Notice struct {
	// ID is the same whenever the same notice comes again.
	ID         string
	Transition *Transition
	// User is the user who has changed, with --ids int the number as text; the zero value if the name is not known.
	User Name
	// Recipients are what 1 to 1,000 users of the same tenant are called, except for those whose names are not
	// known; nil in a channel of all transitions, which has none.
	Recipients []string
}

// Body is n as JSON, the body of a webhook and a line of the log: a NoticeMessage, or without
// recipients a TransitionMessage.
func (n Notice) Body() ([]byte, error) {
	if n.Recipients == nil {
		return json.Marshal(n.transitionMessage())
	}
	return json.Marshal(n.Message())
}

// Event is the CloudEvents type of Body.
func (n Notice) Event() string {
	if n.Recipients == nil {
		return TransitionEvent
	}
	return NoticeEvent
}

// TransitionMessage is a transition as JSON: what a channel of all transitions sends. When a user
// hides, state, times and devices are null, and nothing follows until the user is visible again.
type TransitionMessage struct {
	ID            string     `json:"id"`      // the event id: the same whenever the transition comes again
	UserID        *string    `json:"user_id"` // nil: the name is not known
	State         *string    `json:"state"`
	PreviousState *string    `json:"previous_state"`
	Cause         string     `json:"cause"`
	Visibility    string     `json:"visibility"`
	At            Millis     `json:"at"`
	LastSeenAt    Millis     `json:"last_seen_at"`
	LastActiveAt  Millis     `json:"last_active_at"`
	LastSeen      string     `json:"last_seen,omitempty"` // as in a Presence
	Devices       []string   `json:"devices"`
	Kinds         KindStates `json:"kinds"` // as of a Presence
	Version       string     `json:"version"`
	LeftOut       uint32     `json:"left_out,omitempty"` // as in NoticeMessage
	DND           bool       `json:"dnd,omitempty"`      // as in a Presence
	Tenant        string     `json:"tenant,omitempty"`   // as in NoticeMessage
}

func (n Notice) transitionMessage() TransitionMessage {
	t := n.Transition
	m := TransitionMessage{ID: n.ID, UserID: n.User.Shown().UserID, Cause: CauseWord(t.Cause), Visibility: VisibilityWord(t.Visibility),
		At: t.At, Version: t.Version.String(), Tenant: n.User.Tenant}
	if t.Visibility != Nobody {
		state, previous := StateWord(t.To), StateWord(t.From)
		m.State, m.PreviousState = &state, &previous
		m.LastSeenAt, m.LastActiveAt, m.LastSeen = t.learned()
		m.LeftOut = t.LeftOut
		m.Devices, m.Kinds = t.Kinds.Words(), t.Kinds.States()
		m.DND = t.Override.State == DoNotDisturb
	}
	return m
}

// NoticeMessage is a delivery as JSON.
type NoticeMessage struct {
	ID            string     `json:"id"`
	EventID       string     `json:"event_id"`
	UserID        *string    `json:"user_id"` // nil: the name is not known
	State         string     `json:"state"`
	PreviousState string     `json:"previous_state"`
	Cause         string     `json:"cause"`
	At            Millis     `json:"at"`
	LastSeenAt    Millis     `json:"last_seen_at"`
	LastActiveAt  Millis     `json:"last_active_at"`
	LastSeen      string     `json:"last_seen,omitempty"` // as in a Presence
	Devices       []string   `json:"devices"`
	Kinds         KindStates `json:"kinds"` // as of a Presence
	Version       string     `json:"version"`
	// LeftOut is how many changes of the user just before this one were not published, because
	// the user changed too often.
	LeftOut    uint32   `json:"left_out,omitempty"`
	DND        bool     `json:"dnd,omitempty"` // as in a Presence
	Recipients []string `json:"recipients"`
	// Tenant is that of the user and of all recipients; empty: the default tenant.
	Tenant string `json:"tenant,omitempty"`
}

// Message is n in the form of its JSON.
func (n Notice) Message() NoticeMessage {
	t := n.Transition
	m := NoticeMessage{ID: n.ID, EventID: t.EventID().String(), UserID: n.User.Shown().UserID, State: StateWord(t.To),
		PreviousState: StateWord(t.From), Cause: CauseWord(t.Cause), At: t.At,
		Devices: t.Kinds.Words(), Kinds: t.Kinds.States(),
		Version: t.Version.String(), LeftOut: t.LeftOut, DND: t.Override.State == DoNotDisturb, Tenant: n.User.Tenant,
		Recipients: n.Recipients}
	m.LastSeenAt, m.LastActiveAt, m.LastSeen = t.learned()
	return m
}

// The headers of a webhook's request besides those of CloudEvents.
const (
	// SignatureHeader holds "t=UNIX SECONDS,v1=HEX": the HMAC-SHA256 of the seconds,
	// a dot and the body, keyed with the secret.
	SignatureHeader = "Stillhere-Signature"
	// IdempotencyHeader is the same for every try of one notice.
	IdempotencyHeader = "Idempotency-Key"
)

// The CloudEvents types of a delivery and of a transition.
const (
	NoticeEvent     = "stillhere.presence.changed.v1"
	TransitionEvent = "stillhere.presence.transition.v1"
)

// SignNotice is the value of SignatureHeader for a body sent at that time.
func SignNotice(secret []byte, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(signatureOf(secret, seconds, body))
}

func signatureOf(secret []byte, seconds string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// ErrSignature reports a signature that does not match, or is too old.
var ErrSignature = errors.New("the signature does not fit the body and the secret, or is too old")

// VerifyNotice checks for a webhook's receiver that signature, the value of SignatureHeader, was
// made with secret for body, at most maxAge before or after now.
func VerifyNotice(secret []byte, signature string, body []byte, now time.Time, maxAge time.Duration) error {
	var seconds string
	var given []byte
	for part := range strings.SplitSeq(signature, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "t":
			seconds = value
		case "v1":
			given, _ = hex.DecodeString(value) // what cannot be read does not fit
		}
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || !hmac.Equal(given, signatureOf(secret, seconds, body)) || now.Sub(time.Unix(at, 0)).Abs() > maxAge {
		return ErrSignature
	}
	return nil
}
