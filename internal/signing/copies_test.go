package signing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestWhetherAFrameOfBeatsIsACopyTakesNoAllocation(t *testing.T) { // not parallel: it counts allocations
	keys := Of([]Master{masterOf(1)})
	c := keys.Checker(topic, 0)
	var f schemas.Frame
	must.Do(t, f.Decode(keys.Sign(beats("gw-1", 1), topic, 0, now)))
	if n := testing.AllocsPerRun(100, func() { must.Do(t, c.Count(&f, now)) }); n != 0 {
		t.Errorf("it takes %v allocations", n)
	}
}

func TestACopyOfWhatChangedSomethingCountsForNothing(t *testing.T) {
	t.Parallel()
	keys := Of([]Master{masterOf(1)})
	policy := schemas.DefaultPolicy()
	denies := func(add, remove []schemas.UserID) schemas.Denies {
		return must.Get(schemas.NewDenies("", 42, add, remove))(t)
	}
	c, restored := keys.Checker(topic, 0), keys.Checker(topic, 0)
	for name, of := range map[string]struct {
		frame   []byte
		changes bool
	}{
		"show":                  {schemas.AppendVisibility(nil, 42, schemas.Everyone), true},
		"hide":                  {schemas.AppendVisibility(nil, 42, schemas.Nobody), false},
		"invisible":             {schemas.AppendOverride(nil, 42, schemas.Override{State: schemas.Invisible}, schemas.Name{}), false},
		"invisible for a while": {schemas.AppendOverride(nil, 42, schemas.Override{State: schemas.Invisible, Until: now + 1}, schemas.Name{}), true},
		"available":             {schemas.AppendOverride(nil, 42, schemas.Override{}, schemas.Name{}), true},
		"exact":                 {schemas.AppendLastSeen(nil, 42, schemas.SeenExactly, schemas.Name{}), true},
		"coarse":                {schemas.AppendLastSeen(nil, 42, schemas.SeenCoarsely, schemas.Name{}), true},
		"never":                 {schemas.AppendLastSeen(nil, 42, schemas.SeenNever, schemas.Name{}), false},
		"deny":                  {schemas.AppendDenies(nil, 42, denies([]schemas.UserID{7}, nil), schemas.Name{}), false},
		"allow":                 {schemas.AppendDenies(nil, 42, denies(nil, []schemas.UserID{7}), schemas.Name{}), true},
		"deny and allow":        {schemas.AppendDenies(nil, 42, denies([]schemas.UserID{8}, []schemas.UserID{7}), schemas.Name{}), true},
		"erasure":               {schemas.AppendErasure(nil, 42, schemas.Name{}, now+1, now+1, false), true},
		"policy":                {schemas.AppendPolicy(nil, policy), true},
		"tick":                  {schemas.AppendTick(nil), false},
		"beats":                 {beats("gw-1", 1), false},
	} {
		var f schemas.Frame
		must.Do(t, f.Decode(keys.Sign(of.frame, topic, 0, now)))
		must.Do(t, c.Check(&f, now), c.Count(&f, now))
		if !restored.Remember(c.Counted()) {
			t.Errorf("%s: what it remembers cannot be remembered", name)
		}
		for _, again := range []*Checker{c, restored} {
			if err := again.Count(&f, now+Tolerance); (err != nil) != of.changes || err != nil && !strings.Contains(err.Error(), "counted already") {
				t.Errorf("%s: a copy counts: %v", name, err)
			}
		}
		must.Do(t, f.Decode(keys.Sign(of.frame, topic, 0, now+1)))
		must.Do(t, c.Check(&f, now), c.Count(&f, now)) // sealed again, it is another one
	}
	if n := len(c.Counted()); n != 18 {
		t.Errorf("it remembers %d frames, want 18", n)
	}
	f := schemas.Frame{ErasedUser: 42, MAC: []byte("a mac of another"), SealedAt: now}
	must.Do(t, c.Count(&f, now+2*Tolerance+2))
	if n := len(c.Counted()); n != 1 {
		t.Errorf("when copies of the others are too old it remembers %d frames, want 1", n)
	}
}

func TestWhatACheckerRemembersIsBounded(t *testing.T) {
	t.Parallel()
	c := Of([]Master{masterOf(1)}).Checker(topic, 0)
	f := schemas.Frame{ErasedUser: 42, SealedAt: now}
	count := func(i int) error {
		f.MAC = fmt.Appendf(nil, "%016d", i)
		return c.Count(&f, now)
	}
	for i := range MaxCounted + 10 {
		must.Do(t, count(i))
	}
	if n := len(c.Counted()); n != MaxCounted || count(10) == nil || count(9) != nil {
		t.Errorf("it remembers %d frames, and not the newest %d", n, MaxCounted)
	}
	for name, counted := range map[string][]Counted{
		"a short MAC":   {{"short", now}},
		"a frame twice": {{"a mac of another", now}, {"a mac of another", now}},
		"too many":      append(c.Counted(), Counted{"a mac of another", now}),
	} {
		if c.Remember(counted) {
			t.Errorf("it remembers %s", name)
		}
	}
}
