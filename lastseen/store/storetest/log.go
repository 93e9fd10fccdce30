// Package storetest has random logs for the tests of stores and of those who read them. Its own tests
// are the contract of all stores, which runs against Postgres and SQLite.
package storetest

import (
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Start is the time of the first change of the logs made here: 2026-11-20, ten
// o'clock and a few milliseconds, so that lost milliseconds are seen.
const Start schemas.Millis = 1795168800123

// DrawLog draws a log of length changes of users 1 to users, such as a detector
// could have written: each from is the to before, versions grow.
func DrawLog(t *rapid.T, users, length int) []*schemas.Transition {
	return makeLog(users, length, func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) })
}

// RandomLog is DrawLog for benchmarks and for tests with a seed.
func RandomLog(seed uint64, users, length int) []*schemas.Transition {
	r := rand.New(rand.NewPCG(seed, seed))
	return makeLog(users, length, func(_ string, n int) int { return r.IntN(n) })
}

func makeLog(users, length int, choose func(name string, n int) int) []*schemas.Transition {
	current := map[schemas.UserID]schemas.Current{}
	log := make([]*schemas.Transition, 0, length)
	for i := range length {
		user := schemas.UserID(choose("user", users) + 1)
		at := Start + schemas.Millis(i)*7
		change := next(current[user], user, at, choose)
		change.Version = schemas.NewVersion(1, int64(i), 0)
		if change.Denies != "" {
			change.AudienceBefore, change.Override.Audience = change.Override.Audience, change.Version
		}
		current[user] = store.After(current[user], change)
		log = append(log, change)
	}
	return log
}

// next is a change that can follow c.
func next(c schemas.Current, user schemas.UserID, at schemas.Millis, choose func(string, int) int) *schemas.Transition {
	over := c.Override
	is, hides := max(c.State, schemas.Offline), c.Visibility == schemas.Nobody && !over.Hides
	if over.State == schemas.SetAway {
		is = over.Automatic
	}
	was := is
	t := &schemas.Transition{
		User: user, From: max(c.State, schemas.Offline), At: at, LastSeen: at - 11, LastActive: at - 1013,
		Kinds: schemas.SetOfKinds(schemas.DeviceKind(1 + choose("kind", len(schemas.Kinds)))).
			As(schemas.States[choose("active", 3)]), Visibility: schemas.Everyone,
		Device: schemas.DeviceID(choose("device", 3)), Policy: "p-1", LeftOut: uint32(choose("left out", 3)),
	}
	switch choose("what", 7) {
	case 0:
		hides, t.Cause = !hides, schemas.OverrideSet // unless the visibility changes; see below
	case 1:
		t.Cause = []schemas.Cause{schemas.DevicesChanged, schemas.DeviceEvicted}[choose("evicted", 2)]
	case 2:
		t.Cause, is = []schemas.Cause{schemas.Silent, schemas.GatewayDrained}[choose("drained", 2)], schemas.Offline
		if was == schemas.Offline {
			t.Cause, is = schemas.FirstBeat, schemas.Away
		}
	case 3:
		t.Cause, is = schemas.ActiveAgain, schemas.Online
		if was == schemas.Online {
			t.Cause, is = schemas.Idle, schemas.Away
		}
	case 4:
		over.LastSeen = []schemas.LastSeen{0, schemas.SeenCoarsely, schemas.SeenNever}[choose("last seen", 3)]
		t.Cause = schemas.LastSeenSet
	case 5:
		var changes [2][]schemas.UserID // added, removed
		changes[choose("removes", 2)] = []schemas.UserID{user + 1 + schemas.UserID(choose("viewer", 3))}
		t.Denies, _ = schemas.NewDenies("", user, changes[0], changes[1]) // it is valid
		t.Cause = schemas.AudienceSet
	default:
		over = schemas.Override{LastSeen: over.LastSeen, Audience: over.Audience, State: schemas.OverrideState(choose("override", 4)),
			Until: (at + 999) * schemas.Millis(choose("ends", 2)), Note: []string{"", "<\"ü\n\u2028>"}[choose("note", 2)]}
		if over.State == c.Override.State {
			over.State = (over.State + 1) % 4
		}
		if t.Cause = schemas.OverrideSet; over.State == 0 {
			over, t.Cause = over.Staying(), schemas.OverrideOver
		}
	}
	over.Automatic, over.Hides = 0, over.State == schemas.Invisible && !hides
	if over.State == schemas.SetAway {
		over.Automatic = is
	}
	if hides || over.State == schemas.Invisible {
		t.Visibility = schemas.Nobody
	}
	if t.Visibility != schemas.KnownVisibility(c.Visibility) {
		t.Cause = schemas.VisibilityChange
	}
	if t.To, t.Override = over.Shown(is), over; t.To != is {
		t.Kinds = t.Kinds.As(t.To)
	}
	return t
}
