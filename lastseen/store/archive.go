package store

import "github.com/stillhere/stillhere/schemas"

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
