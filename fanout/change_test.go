package fanout_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

const day schemas.Millis = 24 * 60 * 60 * 1000

// history draws the transitions of one user, as the detector could write them.
func history(t *rapid.T) []*schemas.Transition {
	var ts []*schemas.Transition
	state, visibility, learn := schemas.Offline, schemas.Everyone, schemas.LastSeen(0)
	for v := range rapid.IntRange(1, 30).Draw(t, "length") {
		next := &schemas.Transition{User: 1, From: state, At: day * schemas.Millis(v+100), LastSeen: day*schemas.Millis(v+100) - 1,
			LastActive: schemas.Millis(v + 1), Version: schemas.Version(v + 1), Policy: "p"}
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			next.To, next.Cause = state, schemas.VisibilityChange
			visibility = schemas.Everyone + schemas.Nobody - visibility
		case 1:
			next.To, next.Cause = state, schemas.DevicesChanged
			next.Kinds = schemas.SetOfKinds(schemas.Web)
		case 2:
			next.To, next.Cause = state, schemas.LastSeenSet
			learn = rapid.SampledFrom([]schemas.LastSeen{0, schemas.SeenCoarsely, schemas.SeenNever}).Draw(t, "learn")
		default:
			next.To = rapid.SampledFrom([]schemas.State{schemas.Offline, schemas.Away, schemas.Online}).Draw(t, "to")
			next.Cause = schemas.FirstBeat
		}
		next.Visibility, next.Override.LastSeen = visibility, learn
		state = next.To
		ts = append(ts, next)
	}
	return ts
}

// Of a hidden user, only the hide and its instant enter Redis.
func TestTheChangeOfAHideHoldsNothingElse(t *testing.T) {
	t.Parallel()
	hide := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Away, At: 1000, LastSeen: 900, LastActive: 800, Cause: schemas.VisibilityChange,
		Device: 7, Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: schemas.Nobody, Version: 5, Policy: "p"}
	c, ok := fanout.ChangeOf(hide)
	want := schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Offline, At: 1000, Cause: schemas.VisibilityChange,
		Visibility: schemas.Nobody, Version: 5, Policy: "p"}
	if !ok || c.Since != 0 || !reflect.DeepEqual(*c.Transition, want) {
		t.Errorf("%+v since %v", c.Transition, c.Since)
	}
}

// kept is what the stores keep of a user after t (lastseen/store.After): times stand still
// while the user hides, begin at the show and never go back.
func kept(c schemas.Current, t *schemas.Transition) schemas.Current {
	next := c.After(t)
	seen, active := t.LastSeen, t.LastActive
	switch turns := t.Cause == schemas.VisibilityChange; {
	case t.Visibility == schemas.Nobody && !turns:
		next.Since, seen, active = c.Since, 0, 0
	case t.Visibility == schemas.Nobody:
		if next.Since, seen, active = t.At, t.At, t.LastActive; t.From == schemas.Offline {
			seen = t.LastSeen
			if c.Version != 0 {
				next.Since = c.Since
			}
		}
	case turns:
		next.Since, seen, active = t.At, t.At, t.At
	}
	next.LastSeen, next.LastActive = max(c.LastSeen, seen), max(c.LastActive, active)
	return next
}

func TestFoldingChangesGivesWhatTheStoresWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stored schemas.Current
		seen := schemas.NeverSeen(1, 0)
		for _, one := range history(t) {
			stored = kept(stored, one)
			want := schemas.PresenceOf(stored, 0, one.At)
			c, told := fanout.ChangeOf(one)
			if told {
				seen = c.After(seen)
			}
			got := seen
			if one.Cause == schemas.LastSeenSet && told { // of times that others did not learn, those of the stores are read
				want.LastActiveAt, seen.LastActiveAt = got.LastActiveAt, want.LastActiveAt
			}
			if got.Since == 0 { // not known, which may be said
				want.Since = 0
			}
			if !reflect.DeepEqual(got, want) {
				a, _ := json.Marshal(got)
				b, _ := json.Marshal(want)
				t.Fatalf("after version %d:\ntold   %s\nstored %s", one.Version, a, b)
			}
			if !told && one.Visibility != schemas.Nobody {
				t.Fatalf("version %d of a visible user was not told", one.Version)
			}
		}
	})
}

// Whoever is shown coarsely, or never, has no instant but that of the change itself in what leaves.
func TestNoTimeLeavesThatAUserDoesNotShow(t *testing.T) {
	t.Parallel()
	const at, seen, active, before = 200*day + 7001, 199*day + 6002, 198*day + 5003, 197*day + 4004
	states := rapid.SampledFrom([]schemas.State{schemas.Offline, schemas.Away, schemas.Online})
	rapid.Check(t, func(t *rapid.T) {
		tr := &schemas.Transition{User: 1, From: states.Draw(t, "from"), To: states.Draw(t, "to"), At: at, LastSeen: seen, LastActive: active,
			Cause: rapid.SampledFrom(schemas.Causes[:]).Draw(t, "cause"), Device: 7, Version: 9, Policy: "p", LeftOut: 2,
			Visibility: rapid.SampledFrom([]schemas.Visibility{schemas.Everyone, schemas.Nobody}).Draw(t, "visibility"),
			Override: schemas.Override{State: schemas.OverrideState(rapid.IntRange(0, 3).Draw(t, "override")),
				LastSeen: rapid.SampledFrom([]schemas.LastSeen{schemas.SeenCoarsely, schemas.SeenNever}).Draw(t, "last seen")}}
		if tr.Cause == schemas.Erased { // it says nothing of the user
			tr.LastSeen, tr.LastActive, tr.Override = 0, 0, schemas.Override{}
		}
		previous := schemas.PresenceOf(schemas.Current{User: 1, State: states.Draw(t, "previous"), Since: before, LastSeen: seen, LastActive: active,
			Version: 8, Override: schemas.Override{LastSeen: schemas.LastSeen(rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "shown before"))}}, 0, at)
		leaves := func(what string, v any, times ...schemas.Millis) {
			text := string(must.Get(json.Marshal(v))(t))
			for _, instant := range append(times, seen, active) {
				if strings.Contains(text, instant.String()) {
					t.Fatalf("%s of\n%+v\nhas %s: %s", what, tr, instant, text)
				}
			}
		}
		for what, of := range map[string]func(*schemas.Transition) (*schemas.Transition, bool){"as null": shown.AsNull, "as if offline": shown.AsIfOffline} {
			if other, visible := of(tr); visible {
				leaves(what, other)
				n := schemas.Notice{ID: "x", Transition: other, Recipients: []string{"2"}}
				leaves(what+", as a notice", n.Message())
				n.Recipients = nil
				leaves(what+", as a transition", json.RawMessage(must.Get(n.Body())(t)))
			}
		}
		for what, of := range map[string]func(*schemas.Transition) (fanout.Change, bool){"change": fanout.ChangeOf, "offline change": fanout.OfflineChangeOf} {
			c, visible := of(tr)
			if !visible {
				continue
			}
			leaves(what, c)
			for how, p := range map[string]schemas.Presence{", after": c.After(previous), ", as offline": c.AsOffline(previous)} {
				if leaves(what+how, p); p.State != nil && *p.State != schemas.StateWord(schemas.Online) {
					leaves(what+how, p, at, before) // nor since when
				}
			}
		}
	})
}

func TestAWordStaysThatAChangeDoesNotSay(t *testing.T) {
	t.Parallel()
	offline := func(choice schemas.LastSeen, cause schemas.Cause, visibility schemas.Visibility) *schemas.Transition {
		return &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Offline, At: 200 * day, Cause: cause, Version: 9,
			Visibility: visibility, Override: schemas.Override{LastSeen: choice}}
	}
	for name, c := range map[string]struct {
		transition *schemas.Transition
		before     schemas.LastSeen
		word       string
	}{
		"an override is over": {offline(schemas.SeenCoarsely, schemas.OverrideOver, schemas.Everyone), schemas.SeenCoarsely, "within_a_week"},
		"coarse at last":      {offline(schemas.SeenCoarsely, schemas.LastSeenSet, schemas.Everyone), 0, "within_a_week"},
		"no longer never":     {offline(schemas.SeenCoarsely, schemas.LastSeenSet, schemas.Everyone), schemas.SeenNever, ""},
		"no longer coarse":    {offline(0, schemas.LastSeenSet, schemas.Everyone), schemas.SeenCoarsely, ""},
		"never":               {offline(schemas.SeenNever, schemas.LastSeenSet, schemas.Everyone), schemas.SeenCoarsely, "hidden"},
		"hides while offline": {offline(schemas.SeenCoarsely, schemas.VisibilityChange, schemas.Nobody), schemas.SeenCoarsely, "within_a_week"},
	} {
		previous := schemas.PresenceOf(schemas.Current{User: 1, State: schemas.Offline, Since: 5, LastSeen: 195 * day, Version: 8,
			Override: schemas.Override{LastSeen: c.before}}, 0, 200*day)
		change, visible := fanout.OfflineChangeOf(c.transition)
		if p := change.AsOffline(previous); !visible || p.LastSeen != c.word {
			t.Errorf("%s: the word is %q, want %q", name, p.LastSeen, c.word)
		}
	}
}

func TestAMissedChangeLeavesSinceUnknownRatherThanWrong(t *testing.T) {
	t.Parallel()
	online, _ := fanout.ChangeOf(&schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: 1000, Version: 1, Visibility: schemas.Everyone})
	devices, _ := fanout.ChangeOf(&schemas.Transition{User: 1, From: schemas.Away, To: schemas.Away, At: 3000, Version: 3, Visibility: schemas.Everyone})
	if p := devices.After(online.After(schemas.NeverSeen(1, 0))); p.Since != 0 {
		t.Fatalf("since %v", p.Since)
	}
}

func TestAllFaultsOfTheSettingsAreNamedTogether(t *testing.T) {
	t.Parallel()
	must.Do(t, fanout.DefaultConfig().Validate())
	cfg := fanout.DefaultConfig()
	cfg.QueueLength, cfg.PingInterval, cfg.RecentFor = cfg.MaxSubscriptions, 0, time.Nanosecond
	err := cfg.Validate()
	for _, name := range []string{"queue_length", "ping_interval", "recent_for"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in %v", name, err)
		}
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 3 {
		t.Errorf("%v", err)
	}
}

func TestAUserHiddenAsOfflineIsShownAsOfflineSinceItWasHidden(t *testing.T) {
	t.Parallel()
	online, _ := fanout.ChangeOf(&schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: 1000, LastSeen: 900, Version: 1, Visibility: schemas.Everyone})
	hide, _ := fanout.OfflineChangeOf(&schemas.Transition{User: 1, From: schemas.Online, To: schemas.Online, At: 2000, LastSeen: 1900, LastActive: 1500, Version: 2,
		Cause: schemas.VisibilityChange, Visibility: schemas.Nobody})
	bye, _ := fanout.ChangeOf(&schemas.Transition{User: 1, From: schemas.Online, To: schemas.Offline, At: 2000, LastSeen: 2000, LastActive: 1500, Version: 2,
		Cause: schemas.Bye, Visibility: schemas.Everyone})
	seen := online.AsOffline(schemas.NeverSeen(1, 0))
	if got, want := hide.AsOffline(seen), bye.After(seen); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, who leaves is %+v", got, want)
	}
	gone := bye.After(seen)
	again := hide.AsOffline(gone)
	if again.Version = gone.Version; !reflect.DeepEqual(again, gone) {
		t.Errorf("who was offline before is %+v, was %+v", again, gone)
	}
}
