package history

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// ofLosses makes the history of a seed in which gateways come and are lost all the time, and devices
// stay with them.
func ofLosses(seed uint64) *History {
	bytes := ofSeed(seed, seedBytes(seed))
	s := &source{bytes: bytes}
	h := fromBytes(bytes)
	for i := range h.Records {
		r := &h.Records[i]
		if len(r.Rows) == 0 {
			continue
		}
		for j := range r.Rows {
			r.Rows[j].Bye = r.Rows[j].Bye && s.chance(2)
			r.Rows[j].Age /= 4
		}
		if r.Gateway == "" && !s.chance(4) {
			r.Gateway, r.Epoch = one(s, "b", "c"), 10
		}
	}
	return h
}

// byUserAndOffset orders what happens to different users at one record.
func byUserAndOffset(unsure []oracle.Unsure) []oracle.Unsure {
	slices.SortStableFunc(unsure, func(a, b oracle.Unsure) int { return cmp.Compare(a.User, b.User) })
	return unsure
}

// compareUnsure holds what the machine writes of unsure users equal to what the oracle writes, on
// runs of h. It returns how often users became unsure.
func compareUnsure(t *testing.T, h *History, runs Runs) (times int) {
	t.Helper()
	of := func(h *History) (want, got []oracle.Unsure) {
		return byUserAndOffset(oracle.RunUnsure(h.Log())), byUserAndOffset(runs.Unsure(h.Log()))
	}
	want, got := of(h)
	if !slices.Equal(want, got) {
		h = Shrink(h, func(h *History) bool {
			want, got := of(h)
			return !slices.Equal(want, got)
		})
		want, got := of(h)
		t.Fatalf("the rules want\n%+v\ngot\n%+v\nStore it under testdata:\n%s", want, got, h)
	}
	for _, u := range want {
		if u.Since != 0 {
			times++
		}
	}
	return times
}

func TestMachineWritesUnsureUsersAsTheOracleDoesHoweverOftenItIsKilled(t *testing.T) {
	t.Parallel()
	times := 0
	for seed := range seeds(t, 1200) {
		h := ofLosses(seed)
		times += compareUnsure(t, h, Runs{})
		compareUnsure(t, h, killed(seed))
		compareUnsure(t, withLosses(h, seed), killed(seed))
		compareUnsure(t, withPolicies(withDrains(h), seed), killed(seed))
		compareUnsure(t, withManyLeases(h, seed), killed(seed))
	}
	if times < 100 {
		t.Errorf("users became unsure %d times", times)
	}
}

func TestAnUnsureUserIsUnsureSinceAnInstantThatHasPassed(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 200) {
		l := ofLosses(seed).Log()
		now := map[int64]schemas.Millis{}
		latest := schemas.Millis(0)
		for i := range l.Records {
			latest = max(latest, l.Records[i].Time)
			now[l.Records[i].Offset] = latest
		}
		for _, u := range (Runs{}).Unsure(l) {
			if u.Since > now[u.Offset] {
				t.Fatalf("seed %d: user %d is unsure since %d at %d", seed, u.User, u.Since, now[u.Offset])
			}
		}
	}
}

func TestNobodyIsUnsureSinceAnInstantBeforeTheLastShow(t *testing.T) {
	t.Parallel()
	after := 0
	for seed := range seeds(t, 600) {
		h := ofLosses(seed)
		h.Offset = 0 // versions then have the offsets of records
		turned := map[schemas.UserID][]schemas.Transition{}
		for _, tr := range Impl(Machine).of(h) {
			if tr.Cause == schemas.VisibilityChange || tr.Cause == schemas.Erased {
				turned[tr.User] = append(turned[tr.User], tr)
			}
		}
		for _, u := range (Runs{}).Unsure(h.Log()) {
			var last schemas.Transition
			for _, tr := range turned[u.User] {
				if tr.Version.Offset() < u.Offset {
					last = tr
				}
			}
			if u.Since == 0 || last.Cause != schemas.VisibilityChange {
				continue
			}
			if after++; u.Since < last.At {
				t.Fatalf("seed %d: user %d showed again at %d and is unsure since %d in\n%s",
					seed, u.User, last.At-h.start(), u.Since-h.start(), h)
			}
		}
	}
	if after == 0 {
		t.Error("no user became unsure after a show")
	}
}
