package coalesce

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

func TestANameIsSentUntilItIsInTheLogAndThenEveryFiveMinutes(t *testing.T) {
	t.Parallel()
	name := &schemas.Name{Tenant: "acme", Text: "ann"}
	ann := beat(1)
	ann.Name = name
	q := New(rules)
	// sends reports and flushes at now, and returns whether the user was named.
	sends := func(now time.Duration, r Report, written bool) bool {
		t.Helper()
		add(t, q, now, r)
		q.Flush()
		b := sealed(t, q, now)
		named := len(b.Names) == 1 && b.Names[0].Row == len(b.Beats)-1 && *b.Names[0].Name == *name
		if !named && len(b.Names) > 0 {
			t.Fatalf("the names are %+v", b.Names)
		}
		q.Settle(now, b, written)
		return named
	}
	wants := func(want, got bool, when string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: named is %v", when, got)
		}
	}
	wants(false, sends(0, beat(2), true), "another user, without a name")
	wants(true, sends(0, ann, false), "the first beat")
	wants(true, sends(15*time.Second, ann, true), "after a failed flush")
	at := 15 * time.Second
	for range 19 {
		at += 15 * time.Second
		wants(false, sends(at, ann, true), "a repeat")
	}
	wants(true, sends(at+15*time.Second, ann, true), "after five minutes")
	wants(false, sends(at+30*time.Second, ann, false), "a flush that fails")
	wants(true, sends(at+45*time.Second, ann, true), "after it")
	at += 45*time.Second + rules.ForgetAfter
	wants(true, sends(at, ann, true), "after a silence")
	short := rules
	short.NameAfter = 20 * time.Second
	q.Follow(at, short)
	at += 19 * time.Second
	wants(false, sends(at, ann, true), "while the detector remembers the user")
	at += 20 * time.Second
	wants(true, sends(at, ann, true), "when the detector may have forgotten the user")
	wants(false, sends(at, bye(1), true), "a bye")
	wants(true, sends(at+time.Second, ann, true), "after a bye")
	wants(false, sends(at+2*time.Second, ann, true), "then")
	if len(q.names) > len(q.slots) {
		t.Errorf("%d names of %d slots", len(q.names), len(q.slots))
	}
}

func TestASlotThatIsUsedAgainHasNoNameOfAnotherUser(t *testing.T) {
	t.Parallel()
	ann := beat(1)
	ann.Name = &schemas.Name{Text: "ann"}
	q := known(t, ann)
	add(t, q, time.Second, bye(1))
	q.Settle(time.Second, sealed(t, q, time.Second), true)
	q.Flush() // forgets the device
	if add(t, q, 2*time.Second, beat(2)); len(q.slots) != 1 {
		t.Fatal("the slot was not used again")
	}
	if b := sealed(t, q, 2*time.Second); len(b.Names) != 0 {
		t.Errorf("the names are %+v", b.Names)
	}
}

func TestAReportIsUrgentAfterTwoIntervalsOfItsTenant(t *testing.T) {
	t.Parallel()
	for _, name := range []*schemas.Name{nil, {Text: "ann"}, {Tenant: "calm", Text: "ann"}} {
		ann := idle(1, 0)
		ann.Name = name
		q := known(t, ann)
		calm := rules
		calm.Intervals = map[string]time.Duration{"calm": time.Minute}
		q.Follow(0, calm)
		ann.Idle = 40_000
		if urgent, calm := add(t, q, 40*time.Second, ann), name != nil && name.Tenant == "calm"; urgent == calm {
			t.Errorf("after 40 s the report of %v is urgent: %t", name, urgent)
		}
	}
}
