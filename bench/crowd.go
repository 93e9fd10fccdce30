package main

import (
	"math/rand/v2"

	"github.com/stillhere/stillhere/schemas"
)

// beatsPerFrame is what a busy gateway sends in one.
const beatsPerFrame = 1000

// device is everybody's phone.
const device = schemas.DeviceID(7)

// crowd is so many users with one phone each. Their ids are like those that most systems give:
// growing, with gaps.
type crowd struct {
	Count      int
	Partitions int32
}

// byPartition are their ids.
func (c crowd) byPartition() [][]schemas.UserID {
	users := make([][]schemas.UserID, c.Partitions)
	ids := rand.New(rand.NewPCG(3, 4))
	for i := range c.Count {
		id := schemas.UserID(i+1)<<22 | schemas.UserID(ids.IntN(1<<22))
		p := schemas.PartitionOf(id, c.Partitions)
		users[p] = append(users[p], id)
	}
	return users
}

// frames are one beat of everybody, users in an order that stays the same, or in random order.
func (c crowd) frames(shuffled bool) []schemas.Outgoing { return c.records(shuffled, beatsPerFrame) }

// records are frames of so many beats.
func (c crowd) records(shuffled bool, size int) []schemas.Outgoing {
	next := make([][]schemas.Outgoing, c.Partitions)
	random := rand.New(rand.NewPCG(1, 2))
	beats := make([]schemas.Beat, size)
	count := 0
	for p, all := range c.byPartition() {
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

// changeOf is a transition: a user comes or goes at an instant.
func changeOf(user schemas.UserID, at schemas.Millis, version schemas.Version, comes bool) *schemas.Transition {
	t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: at, LastSeen: at, LastActive: at, Cause: schemas.FirstBeat,
		Device: device, Kinds: schemas.SetOfKinds(schemas.Mobile).As(schemas.Online), Visibility: schemas.Everyone, Version: version, Policy: "0123456789ab"}
	if !comes {
		t.From, t.To, t.Cause, t.Device, t.Kinds = schemas.Online, schemas.Offline, schemas.Silent, 0, 0
	}
	return t
}

// recordOf is the record of a change.
func recordOf(t *schemas.Transition, partitions int32) schemas.Outgoing {
	return schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(t.User, partitions), Key: t.User.Key(), Value: t.Encode()}
}
