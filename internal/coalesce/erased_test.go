package coalesce

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// sessions are the devices 1 and 2 of ann, and device 1 of ben, whose names are in the log.
func sessions(t *testing.T) (q *Queue, reports [3]Report) {
	t.Helper()
	q = New(rules)
	ann, ben := &schemas.Name{Tenant: "acme", Text: "ann"}, &schemas.Name{Text: "ben"}
	reports = [3]Report{{User: 1, Device: 1, Kind: schemas.Web, Name: ann}, {User: 1, Device: 2, Kind: schemas.Web, Name: ann}, {User: 2, Device: 1, Kind: schemas.Web, Name: ben}}
	for _, r := range reports {
		add(t, q, 0, r)
	}
	q.Flush()
	b := sealed(t, q, 0)
	if len(b.Names) != 3 {
		t.Fatalf("the names are %+v", b.Names)
	}
	q.Settle(0, b, true)
	return q, reports
}

// named are the reports that tell names when all of them come and leave at now.
func named(t *testing.T, q *Queue, now time.Duration, written bool, reports ...Report) (named [3]bool) {
	t.Helper()
	for _, r := range reports {
		add(t, q, now, r)
	}
	q.Flush()
	b := sealed(t, q, now)
	for _, row := range b.Names {
		beat := b.Beats[row.Row]
		for i, r := range reports {
			if r.User == beat.User && r.Device == beat.Device {
				named[i] = *row.Name == *r.Name
			}
		}
	}
	q.Settle(now, b, written)
	return named
}

func TestAfterAnErasureEachDeviceOfTheUserTellsTheNameUntilItIsInTheLog(t *testing.T) {
	t.Parallel()
	q, all := sessions(t)
	wants := func(now time.Duration, written bool, want [3]bool, when string) {
		t.Helper()
		if got := named(t, q, now, written, all[:]...); got != want {
			t.Errorf("%s: named are %v, want %v", when, got, want)
		}
	}
	none, ann := [3]bool{}, [3]bool{true, true, false}
	wants(15*time.Second, true, none, "a repeat")
	q.Erased(20*time.Second, 1)
	wants(30*time.Second, false, ann, "after an erasure, in a flush that fails")
	wants(45*time.Second, true, [3]bool{true, true, true}, "after that flush")
	wants(60*time.Second, true, none, "then")
	q.Erased(60*time.Second, 3)
	wants(75*time.Second, true, none, "after the erasure of a user without devices")
	q.Erased(80*time.Second, 1)
	q.Erased(90*time.Second, 1)
	wants(95*time.Second, true, ann, "after two erasures")
	wants(110*time.Second, true, none, "at last")
	q.Sweep(90*time.Second + NamedEvery)
	if q.erased.users != nil {
		t.Errorf("%d users are remembered when all names have been repeated", len(q.erased.users))
	}
}

func TestANameThatWasUnderWayWhenTheUserWasErasedIsToldAgain(t *testing.T) {
	t.Parallel()
	q, all := sessions(t)
	now := NamedEvery
	add(t, q, now, all[0])
	q.Flush()
	under := sealed(t, q, now)
	if len(under.Names) != 1 {
		t.Fatal("it is not named")
	}
	add(t, q, now+time.Second, all[0]) // waits for the answer
	q.Erased(now+2*time.Second, 1)
	q.Settle(now+3*time.Second, under, true)
	q.Flush()
	if b := sealed(t, q, now+3*time.Second); len(b.Names) != 1 {
		t.Error("a beat that waited during the erasure has no name")
	}
}

func TestErasuresBeyondABoundMakeAllUsersTellTheirNamesOnce(t *testing.T) {
	t.Parallel()
	q, all := sessions(t)
	for user := range schemas.UserID(rules.MaxErased + 1) {
		q.Erased(time.Second, 1000+user)
		if got := len(q.erased.users); got > rules.MaxErased {
			t.Fatalf("%d users are remembered", got)
		}
	}
	if len(q.erased.users) != 0 {
		t.Fatalf("%d users are remembered", len(q.erased.users))
	}
	if got := named(t, q, 2*time.Second, true, all[:]...); got != [3]bool{true, true, true} {
		t.Errorf("named are %v", got)
	}
	if got := named(t, q, 3*time.Second, true, all[:]...); got != [3]bool{} {
		t.Errorf("then named are %v", got)
	}
	for range rules.MaxErased + 1 {
		q.Erased(4*time.Second, 1) // one user
	}
	if got := named(t, q, 5*time.Second, true, all[:]...); got != [3]bool{true, true, false} {
		t.Errorf("after one more erasure named are %v", got)
	}
}

func TestWithoutNamesAQueueRemembersNoNamesAndNoErasures(t *testing.T) {
	t.Parallel()
	q := known(t, beat(1))
	if q.Erased(0, 1); q.erased.users != nil || q.names != nil {
		t.Error("it does")
	}
}

// The detector forgets users after 20 s of silence, then after an hour.
func TestUsersWhomAShorterPolicyLetGoAreNamedAfterItWasMadeLonger(t *testing.T) {
	t.Parallel()
	short, long := rules, rules
	short.ForgetAfter, short.NameAfter = 2*time.Hour, 20*time.Second
	long.ForgetAfter, long.NameAfter = 2*time.Hour, time.Hour
	q, all := sessions(t)
	q.Follow(0, short)
	q.Follow(30*time.Second, long)
	q.Follow(31*time.Second, long) // another setting changes
	for _, c := range []struct {
		now  time.Duration
		want bool
	}{
		{time.Minute, true},       // silent for a minute, since before the change
		{79 * time.Second, false}, // for 19 s
		{100 * time.Second, true}, // for 21 s: partitions may learn of the change late
		{5 * time.Minute, true},   // as until five minutes after it
		{5*time.Minute + 29*time.Second, true},
		{6 * time.Minute, false}, // then it counts
	} {
		if got := named(t, q, c.now, true, all[0]); got[0] != c.want {
			t.Errorf("at %s: named is %t, want %t", c.now, got[0], c.want)
		}
	}
	q.Follow(6*time.Minute, short)
	if got := named(t, q, 6*time.Minute+20*time.Second, true, all[0]); !got[0] {
		t.Error("a shorter time does not count at once")
	}
}

func TestOfTwoChangesToLongerSilencesTheShortestCounts(t *testing.T) {
	t.Parallel()
	var s Silence
	s.Set(0, 20*time.Second)
	s.Set(time.Minute, 5*time.Minute)
	s.Set(2*time.Minute, time.Hour)
	for now, want := range map[time.Duration]time.Duration{
		2 * time.Minute: 20 * time.Second, 2*time.Minute + NamedEvery - 1: 20 * time.Second, 2*time.Minute + NamedEvery: time.Hour,
	} {
		if got := s.At(now); got != want {
			t.Errorf("at %s it is %s, want %s", now, got, want)
		}
	}
	s.Set(3*time.Minute, 10*time.Second)
	if got := s.At(3 * time.Minute); got != 10*time.Second {
		t.Errorf("a shorter silence is %s", got)
	}
}
