package loadtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/schemas"
)

// BeatsPerFrame is what a busy gateway sends in one.
const BeatsPerFrame = 1000

// device is everybody's phone.
const device = schemas.DeviceID(7)

// Users are so many users with one phone each. Their ids are like those that most systems give:
// growing, with gaps.
type Users struct {
	Count      int
	Partitions int32
}

// ByPartition are their ids.
func (u Users) ByPartition() [][]schemas.UserID {
	users := make([][]schemas.UserID, u.Partitions)
	ids := rand.New(rand.NewPCG(3, 4))
	for i := range u.Count {
		id := schemas.UserID(i+1)<<22 | schemas.UserID(ids.IntN(1<<22))
		p := schemas.PartitionOf(id, u.Partitions)
		users[p] = append(users[p], id)
	}
	return users
}

// Frames are one beat of everybody, users in an order that stays the same, or in random order.
func (u Users) Frames(shuffled bool) []schemas.Outgoing {
	next := make([][]schemas.Outgoing, u.Partitions)
	random := rand.New(rand.NewPCG(1, 2))
	beats := make([]schemas.Beat, BeatsPerFrame)
	count := 0
	for p, all := range u.ByPartition() {
		if shuffled {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		for len(all) > 0 {
			n := min(len(beats), len(all))
			for i, id := range all[:n] {
				beats[i] = schemas.Beat{User: id, Device: device, Kind: schemas.Mobile, Age: schemas.Millis(i % 100), Idle: schemas.Millis(i * 7919 % 60_000)}
			}
			all = all[n:]
			value := schemas.AppendFrame(nil, schemas.FrameHead{}, beats[:n])
			next[p] = append(next[p], schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(p), Value: value})
			count++
		}
	}
	// Partitions take turns, as when gateways write to all of them.
	turns := make([]schemas.Outgoing, 0, count)
	for len(turns) < count {
		for p := range next {
			if len(next[p]) > 0 {
				turns, next[p] = append(turns, next[p][0]), next[p][1:]
			}
		}
	}
	return turns
}

// Change is a transition: a user comes or goes at an instant.
func Change(user schemas.UserID, at schemas.Millis, version schemas.Version, comes bool) *schemas.Transition {
	t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: at, LastSeen: at, LastActive: at, Cause: schemas.FirstBeat,
		Device: device, Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: schemas.Everyone, Version: version, Policy: "0123456789ab"}
	if !comes {
		t.From, t.To, t.Cause, t.Device, t.Kinds = schemas.Online, schemas.Offline, schemas.Silent, 0, 0
	}
	return t
}

// Record is the record of a change.
func Record(t *schemas.Transition, partitions int32) schemas.Outgoing {
	return schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(t.User, partitions), Key: t.User.Key(), Value: t.Encode()}
}

// beatInterval is how often everybody beats.
const beatInterval = 15 * time.Second

// beating are users who beat through a gateway, evenly spread over the interval. One goroutine
// may use it.
type beating struct {
	users   int
	gateway *gateway.Gateway
	began   time.Time
	sent    int // since then
}

// everybody beats once, now.
func (b *beating) everybody() error {
	for user := range b.users {
		if err := b.beat(user); err != nil {
			return err
		}
	}
	b.began, b.sent = time.Now(), 0
	return nil
}

// catchUp sends what is due by now.
func (b *beating) catchUp() error {
	for due := int(float64(b.users) * float64(time.Since(b.began)) / float64(beatInterval)); b.sent < due; b.sent++ {
		if err := b.beat(b.sent % b.users); err != nil {
			return err
		}
	}
	return nil
}

func (b *beating) beat(user int) error {
	if err := b.gateway.Beat(schemas.UserID(user+1), device, schemas.Mobile, 0); err != nil {
		return fmt.Errorf("beating for user %d: %w", user+1, err)
	}
	return nil
}
