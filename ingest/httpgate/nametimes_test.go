package httpgate

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/coalesce"
	"github.com/stillhere/stillhere/schemas"
)

// ann and bob have one entry of the table, carol has her own.
const (
	ann   schemas.UserID = 7
	bob                  = ann + nameEntries
	carol                = ann + 1
)

// learner is a table, and the keys of the names in it.
type learner struct {
	*testing.T
	nameTimes
}

func newLearner(t *testing.T) *learner {
	l := &learner{T: t}
	l.silence.Set(0, coalesce.NamedEvery)
	return l
}

// puts learns that a row that was sealed at an instant is in the log.
func (l *learner) puts(user schemas.UserID, how uint8, sealed time.Duration) {
	l.learn([]sentRow{{user, uint64(user), how}}, sealed)
}

func (l *learner) wants(user schemas.UserID, now time.Duration, want bool, when string) {
	l.Helper()
	if got := l.due(user, uint64(user), now); got != want {
		l.Errorf("%s: the name of %d is due: %t", when, user, got)
	}
}

// A row that was sealed before an erasure may come before it in the log, whenever it is answered.
func TestANameFromBeforeAnErasureDoesNotCountWhateverWasAnsweredMeanwhile(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(l *learner){
		"nothing":                             func(*learner) {},
		"another user of the entry":           func(l *learner) { l.puts(bob, sentNamed, 12*time.Second) },
		"that user, and the user's bye":       func(l *learner) { l.puts(bob, sentNamed, 12*time.Second); l.puts(ann, sentBye, 12*time.Second) },
		"a bye of the user":                   func(l *learner) { l.puts(ann, sentBye, 12*time.Second) },
		"a bye of the user from before":       func(l *learner) { l.puts(ann, sentBye, 10*time.Second) },
		"a heartbeat with the name and a bye": func(l *learner) { l.puts(ann, sentNamed, 12*time.Second); l.puts(ann, sentBye, 12*time.Second) },
		"an erasure of another user":          func(l *learner) { l.erased(carol, 11*time.Second) },
		"the same erasure, read again":        func(l *learner) { l.erased(ann, 11*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLearner(t)
			l.wants(ann, 10*time.Second, true, "at first")
			l.erased(ann, 11*time.Second)
			meanwhile(l)
			l.puts(ann, sentNamed, 10*time.Second)
			l.puts(ann, sentPlain, 10*time.Second)
			l.wants(ann, 13*time.Second, true, "after the erasure")
			l.puts(ann, sentNamed, 13*time.Second)
			l.wants(ann, 14*time.Second, false, "after a name behind it")
		})
	}
}

func TestAnErasureMakesOnlyTheUsersNameDueAndForgetsNoBye(t *testing.T) {
	t.Parallel()
	l := newLearner(t)
	neighbour := ann + erasureSlots // remembers erasures together with ann, and is named apart
	for _, user := range []schemas.UserID{carol, neighbour} {
		l.puts(user, sentNamed, 10*time.Second)
	}
	l.erased(ann, 11*time.Second)
	l.wants(carol, 12*time.Second, false, "after the erasure of another user")
	l.wants(neighbour, 12*time.Second, false, "after the erasure of a neighbour")
	l.puts(neighbour, sentBye, 10*time.Second)
	l.wants(neighbour, 12*time.Second, true, "after a bye from before that erasure")
}
