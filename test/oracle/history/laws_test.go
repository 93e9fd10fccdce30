package history

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// lawful runs check on many histories, for both implementations.
func lawful(t *testing.T, check func(t *testing.T, impl Impl, seed uint64)) {
	t.Parallel()
	for name, impl := range map[string]Impl{"oracle": oracle.Run, "machine": Machine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(t, 1600) {
				check(t, impl, seed)
			}
		})
	}
}

func TestExtraTicksChangeNothingButVersions(t *testing.T) {
	lawful(t, func(t *testing.T, impl Impl, seed uint64) {
		h := owned(unbounded(seed))
		checkSame(t, impl, h, withExtraTicks(h, seed+1), "extra ticks change nothing but versions")
	})
}

// Ticks come less often where the machine says that nothing is due; run.handle looks.
func TestNoTickChangesAnybodyBeforeTheMachineSaysThatSomethingIsDue(t *testing.T) {
	t.Parallel()
	quiet := 0
	for seed := range seeds(t, 1600) {
		h := withExtraTicks(owned(withPolicies(unbounded(seed), seed)), seed+1)
		quiet += Runs{Snapshots: detector.Cadence{Least: time.Hour, Most: time.Hour}}.run(h.Log()).quiet
	}
	if quiet < 1600 {
		t.Errorf("%d ticks were without need", quiet)
	}
}

func TestExtraTicksAmongManyPoliciesChangeNothingButVersions(t *testing.T) {
	lawful(t, func(t *testing.T, impl Impl, seed uint64) {
		h := owned(withPolicies(unbounded(seed), seed))
		checkSame(t, impl, h, withExtraTicks(h, seed+1), "extra ticks change nothing but versions")
	})
}

func TestFramesWrittenTwiceChangeNothingButVersions(t *testing.T) {
	lawful(t, func(t *testing.T, impl Impl, seed uint64) {
		h := unbounded(seed)
		checkSame(t, impl, h, withFramesTwice(h), "frames written twice change nothing but versions")
	})
}

func TestTransitionsOfAUserLinkUpAndChangeSomething(t *testing.T) {
	lawful(t, func(t *testing.T, impl Impl, seed uint64) {
		checkWellFormed(t, impl, unbounded(seed))
	})
}

func TestNoTimeAfterAShowIsFromBeforeIt(t *testing.T) {
	lawful(t, func(t *testing.T, impl Impl, seed uint64) {
		h := unbounded(seed)
		shown, hidden := map[schemas.UserID]schemas.Millis{}, map[schemas.UserID]bool{}
		for _, tr := range impl.of(h) {
			hides := tr.Visibility == schemas.Nobody
			show, turns := shown[tr.User], hides != hidden[tr.User]
			hidden[tr.User] = hides
			switch {
			case tr.Cause == schemas.Erased:
				delete(shown, tr.User)
				continue
			case turns && !hides:
				shown[tr.User] = tr.At
				continue
			case turns:
				delete(shown, tr.User)
			}
			before := func(at schemas.Millis) bool { return at != 0 && at < show } // 0 is never
			if before(tr.At) || before(tr.LastSeen) || before(tr.LastActive) {
				t.Fatalf("the user showed again at %d:\n%s\nin\n%s", show-h.start(), Describe(h, tr), h)
			}
		}
	})
}

// maxStep is the longest stretch between two records that counts in full.
const maxStep = 5000

// owned is h with a tick behind each record where the next would come more than maxStep after the newest tick, so that
// the partition has an owner that keeps up.
func owned(h *History) *History {
	more := *h
	more.Records = nil
	since := int64(0) // of appends, the newest tick
	for i, r := range h.Records {
		if more.Records = append(more.Records, r); r.Tick {
			since = 0
		}
		if i+1 < len(h.Records) {
			if since += max(0, h.Records[i+1].After); since > maxStep {
				more.Records, since = append(more.Records, Record{Tick: true}), max(0, h.Records[i+1].After)
			}
		}
	}
	return &more
}

// withExtraTicks is h with ticks put in between records, wherever no time stands
// still. The seed says where.
func withExtraTicks(h *History, seed uint64) *History {
	s := &source{bytes: ofSeed(seed, 8*len(h.Records))}
	more := *h
	more.Records = nil
	top, now := int64(0), int64(0) // the log time, the append time
	for _, r := range h.Records {
		gap := now + r.After - top // by which the log time grows, if positive
		if !r.Garbage && top > 0 && gap > 0 && gap <= maxStep && s.chance(2) {
			at := top + int64(s.below(int(gap)+1))
			more.Records = append(more.Records, Record{After: at - now, Tick: true})
			r.After -= at - now
			now = at
		}
		now += r.After
		if !r.Garbage {
			top = max(top, now)
		}
		more.Records = append(more.Records, r)
	}
	return &more
}

// withFramesTwice is h with every frame that is numbered written a second time
// right behind the first, as by a producer that did not get its answer.
func withFramesTwice(h *History) *History {
	more := *h
	more.Records = nil
	for _, r := range h.Records {
		more.Records = append(more.Records, r)
		if r.Sequence != 0 {
			r.After = 0
			more.Records = append(more.Records, r)
		}
	}
	return &more
}

// checkSame holds that impl makes the same of h and of other, but for versions.
func checkSame(t *testing.T, impl Impl, h, other *History, law string) {
	t.Helper()
	want, got := byUser(impl.of(h)), byUser(impl.of(other))
	if !slices.Equal(want, got) {
		t.Fatalf("%s:\n%s\nof\n%s\nand\n%s", law, Difference(h, want, got), h, other)
	}
}

// byUser orders transitions by user and forgets which records they came of.
func byUser(transitions []schemas.Transition) []schemas.Transition {
	slices.SortStableFunc(transitions, func(a, b schemas.Transition) int { return cmp.Compare(a.User, b.User) })
	for i := range transitions {
		t := &transitions[i]
		t.Version = schemas.NewVersion(1, 0, 0)
		for _, of := range []*schemas.Version{&t.Override.Audience, &t.AudienceBefore} {
			*of = min(*of, 1)
		}
	}
	return transitions
}

// checkWellFormed holds what is true of the transitions of any history: those of
// a user link up, change something, and have growing versions.
func checkWellFormed(t *testing.T, impl Impl, h *History) {
	t.Helper()
	last := map[schemas.UserID]schemas.Transition{}
	for _, tr := range impl.of(h) {
		before, known := last[tr.User]
		if !known {
			before = schemas.Transition{To: schemas.Offline, Visibility: schemas.Everyone}
		}
		if fault := fault(before, tr); fault != "" {
			t.Fatalf("%s:\n%s\nafter\n%s\nin\n%s", fault, Describe(h, tr), Describe(h, before), h)
		}
		last[tr.User] = tr
	}
}

// fault is what is wrong with tr after before.
func fault(before, tr schemas.Transition) string {
	same := automatic(before) == automatic(tr)
	lastSeen := tr.Cause == schemas.LastSeenSet
	overrides := tr.Cause == schemas.OverrideSet || tr.Cause == schemas.OverrideOver || lastSeen
	visibility := tr.Cause == schemas.VisibilityChange
	asked, askedBefore := tr.Override, before.Override
	asked.Automatic, askedBefore.Automatic = 0, 0
	asked.Limit(false) // what a policy adds is nobody's choice
	askedBefore.Limit(false)
	audience := tr.Cause == schemas.AudienceSet
	changed := asked.Audience != askedBefore.Audience
	asked.Audience, askedBefore.Audience = 0, 0
	but := asked
	but.LastSeen = askedBefore.LastSeen
	switch {
	case audience != (tr.Denies != ""), audience && (tr.Override.Audience != tr.Version || tr.AudienceBefore != before.Override.Audience),
		audience && (tr.From != tr.To || tr.Kinds != before.Kinds || tr.Device != 0 || tr.LeftOut != 0 || asked != askedBefore),
		changed != audience && tr.Cause != schemas.Erased:
		return "the list of denied viewers and the cause do not fit"
	case tr.From != before.To:
		return "does not follow on"
	case tr.Version <= before.Version:
		return "version does not grow"
	case tr.At < before.At:
		return "its instant is before that of the change before"
	case tr.Cause == schemas.Erased:
		erased := schemas.Transition{User: tr.User, From: tr.From, To: schemas.Offline, At: tr.At, Cause: tr.Cause,
			Visibility: schemas.Everyone, Version: tr.Version, Policy: tr.Policy, ErasedUntil: erasedUntil}
		if tr != erased {
			return "an erasure says more than that"
		}
	case visibility != (tr.Visibility != before.Visibility):
		return "the visibility and the cause do not fit"
	case !visibility && overrides != (asked != askedBefore), overrides && lastSeen != (but == askedBefore),
		overrides && !lastSeen && (asked.State == 0) != (tr.Cause == schemas.OverrideOver):
		return "the override and the cause do not fit"
	case same && kindsChanged(tr) && (tr.Kinds == before.Kinds && tr.To == automatic(tr) || tr.To == schemas.Offline):
		return "nothing changes"
	case !visibility && !overrides && !audience && same != kindsChanged(tr):
		return fmt.Sprintf("the cause does not fit %s→%s", schemas.StateWord(tr.From), schemas.StateWord(tr.To))
	case tr.Kinds != 0 && tr.To == schemas.Offline, (tr.Kinds.Active() != 0) != (tr.To == schemas.Online):
		return "the devices do not fit the state"
	case tr.LastActive > tr.LastSeen:
		return "active later than seen"
	}
	return ""
}

// automatic is the state after tr without the override.
func automatic(tr schemas.Transition) schemas.State {
	if tr.Override.State == schemas.SetAway {
		return tr.Override.Automatic
	}
	return tr.To
}

func kindsChanged(tr schemas.Transition) bool {
	return tr.Cause == schemas.DevicesChanged || tr.Cause == schemas.DeviceEvicted
}
