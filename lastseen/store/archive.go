package store

import (
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// EventText is an event id as it is written: 27 letters and digits.
type EventText [27]byte

// Entry is a change as the log keeps it, hidden ones included: it is for those
// who may see everything.
type Entry struct {
	schemas.Transition
	Event EventText
}

// SetEvent takes the event id as written; what cannot be one is worked out anew.
func (e *Entry) SetEvent(text []byte) {
	if len(text) != len(e.Event) {
		text = []byte(e.EventID().String())
	}
	copy(e.Event[:], text)
}

// Compare orders entries by instant, user and version: no two are equal, and it
// does not depend on where an entry was read.
func (e *Entry) Compare(o *Entry) int {
	switch {
	case e.At != o.At:
		return sign(e.At < o.At)
	case e.User != o.User:
		return sign(e.User < o.User)
	case e.Version != o.Version:
		return sign(e.Version < o.Version)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// Range asks for a part of the log of changes.
type Range struct {
	// From is included, To is not; 0 leaves that end open.
	From, To schemas.Millis
	// User is the only one wanted; 0: everybody.
	User schemas.UserID
}

// ForgottenError says that an instant was asked about that is before the beginning of the
// log of changes: what is older than the audit retention has been dropped.
type ForgottenError struct {
	// Asked is the instant, Begins the one from which on the log is kept.
	Asked, Begins schemas.Millis
}

func (e *ForgottenError) Error() string {
	return fmt.Sprintf("what was in force at %s is no longer known: the store keeps changes from %s on, older ones were dropped by the audit retention; "+
		"ask for that instant or later", e.Asked, e.Begins)
}

// CheckKnown tells whether what was in force at an instant can be known of a log that
// begins at another, 0: of which nothing was ever dropped. The error is a
// *ForgottenError. The millisecond before the beginning is still known, by what the changes
// from then on began with.
func CheckKnown(at, begins schemas.Millis) error {
	if at+1 < begins {
		return &ForgottenError{Asked: at, Begins: begins}
	}
	return nil
}
