package store

import (
	"cmp"
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// EventText is an event id as text: 27 letters and digits.
type EventText [27]byte

// Entry is a change in the log, hidden ones included. Only callers that may see everything get it.
type Entry struct {
	schemas.Transition
	Event EventText
}

// SetEvent sets the event id; if text cannot be one, it is computed.
func (e *Entry) SetEvent(text []byte) {
	if len(text) != len(e.Event) {
		text = []byte(e.EventID().String())
	}
	copy(e.Event[:], text)
}

// Compare orders entries by instant, user and version. No two entries are equal, and the order
// does not depend on the store.
func (e *Entry) Compare(o *Entry) int {
	if e.At != o.At {
		return cmp.Compare(e.At, o.At)
	}
	return cmp.Or(cmp.Compare(e.User, o.User), cmp.Compare(e.Version, o.Version))
}

type Range struct {
	// From is included, To is not; 0 leaves that end open.
	From, To schemas.Millis
	// User is the only one wanted; 0: everybody.
	User schemas.UserID
}

// ForgottenError says that the log of changes begins after the instant asked for: the audit
// retention has dropped older changes, or those of a tenant that keeps fewer days.
type ForgottenError struct {
	// Asked is the instant, Begins the one from which on the log is kept.
	Asked, Begins schemas.Millis
	// Tenant is the one whose log begins later than that of everybody; nil: everybody's log begins then.
	Tenant *string
}

func (e *ForgottenError) Error() string {
	if e.Tenant != nil {
		return fmt.Sprintf("what was in force at %s is no longer known of tenant %q: the store keeps its changes from %s on, older ones were dropped by its history_days; "+
			"ask for that instant or later", e.Asked, *e.Tenant, e.Begins)
	}
	return fmt.Sprintf("what was in force at %s is no longer known: the store keeps changes from %s on, older ones were dropped by the audit retention; "+
		"ask for that instant or later", e.Asked, e.Begins)
}

// CheckKnown returns a *ForgottenError if a log that begins at begins (0: nothing was ever
// dropped) does not know what was in force at an instant. The millisecond before the beginning is
// known: it is what the first changes started from.
func CheckKnown(at, begins schemas.Millis) error {
	if at+1 < begins {
		return &ForgottenError{Asked: at, Begins: begins}
	}
	return nil
}
