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
		current[user] = store.After(current[user], change)
		log = append(log, change)
	}
	return log
}

// next is a change that can follow c.
func next(c schemas.Current, user schemas.UserID, at schemas.Millis, choose func(string, int) int) *schemas.Transition {
	t := &schemas.Transition{
		User: user, From: max(c.State, schemas.Offline), At: at, LastSeen: at - 11, LastActive: at - 1013,
		Kinds: schemas.SetOfKinds(schemas.DeviceKind(1 + choose("kind", len(schemas.Kinds)))).
			As(schemas.States[choose("active", 3)]), Visibility: schemas.KnownVisibility(c.Visibility),
		Device: schemas.DeviceID(choose("device", 3)), Policy: "p-1", LeftOut: uint32(choose("left out", 3)),
	}
	t.To = t.From
	switch choose("what", 4) {
	case 0:
		t.Cause = schemas.VisibilityChange
		t.Visibility = schemas.Nobody
		if c.Visibility == schemas.Nobody {
			t.Visibility = schemas.Everyone
		}
	case 1:
		t.Cause = []schemas.Cause{schemas.DevicesChanged, schemas.DeviceEvicted}[choose("evicted", 2)]
	case 2:
		t.Cause, t.To = []schemas.Cause{schemas.Silent, schemas.GatewayDrained}[choose("drained", 2)], schemas.Offline
		if t.From == schemas.Offline {
			t.Cause, t.To = schemas.FirstBeat, schemas.Away
		}
	default:
		t.Cause, t.To = schemas.ActiveAgain, schemas.Online
		if t.From == schemas.Online {
			t.Cause, t.To = schemas.Idle, schemas.Away
		}
	}
	return t
}
