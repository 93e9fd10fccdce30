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
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// history draws the transitions of one user, as the detector could write them.
func history(t *rapid.T) []*schemas.Transition {
	var ts []*schemas.Transition
	state, visibility := schemas.Offline, schemas.Everyone
	for v := range rapid.IntRange(1, 30).Draw(t, "length") {
		next := &schemas.Transition{User: 1, From: state, At: schemas.Millis(1000 * (v + 1)), LastSeen: schemas.Millis(1000*(v+1) - 1),
			LastActive: schemas.Millis(v + 1), Version: schemas.Version(v + 1), Policy: "p"}
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			next.To, next.Cause = state, schemas.VisibilityChange
			visibility = schemas.Everyone + schemas.Nobody - visibility
		case 1:
			next.To, next.Cause = state, schemas.DevicesChanged
			next.Kinds = schemas.SetOfKinds(schemas.Web)
		default:
			next.To = rapid.SampledFrom([]schemas.State{schemas.Offline, schemas.Away, schemas.Online}).Draw(t, "to")
			next.Cause = schemas.FirstBeat
		}
		next.Visibility = visibility
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
			want := schemas.PresenceOf(stored, 0)
			c, told := fanout.ChangeOf(one)
			if told {
				seen = c.After(seen)
			}
			got := seen
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
