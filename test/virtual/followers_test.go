package virtual

import (
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// 184 changes of a user with many followers gave 3.51 M deliveries in 6 s.
func TestAFlappingCelebrityIsExpandedOnceASecondAndTheLastStateIsDelivered(t *testing.T) {
	for name, restart := range map[string]func(p *process, on *wire){
		"undisturbed":         nil,
		"stopped and started": func(p *process, _ *wire) { p.stop() },
		"killed":              (*process).kill,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) { flap(w, restart) })
		})
	}
}

func flap(w *world, restart func(p *process, on *wire)) {
	const (
		star      = schemas.UserID(1)
		followers = 3_000
		changes   = 184
	)
	var edges []graph.Edge
	for i := range schemas.UserID(followers) {
		edges = append(edges, graph.Edge{User: star, Follower: 100_000 + i})
	}
	for i := range schemas.UserID(changes) { // everybody else has one follower and changes once
		edges = append(edges, graph.Edge{User: 10 + i, Follower: 200_000 + i})
	}
	openGraph(w, edges...)
	start := func() (*process, *wire) {
		return w.startOn("fanout", func(config *app.Config) {
			config.Expand.Mode, config.Expand.Everyone = expand.All, true
			config.Expand.HighFollower, config.Expand.JobFollowers = 1_000, 1_000
		})
	}
	fanout, wire := start()
	version := schemas.Version(0)
	change := func(user schemas.UserID) {
		version++
		t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: now(), Cause: schemas.FirstBeat,
			Visibility: schemas.Everyone, Version: version}
		w.write(schemas.Outgoing{Topic: schemas.Transitions, Key: user.Key(), Value: t.Encode()})
	}
	last := schemas.Version(0)
	for i := range changes {
		change(star)
		last = version
		change(schemas.UserID(10 + i))
		if restart != nil && (i%60 == 40 || i == changes-1) { // a change waits, the last one among them
			restart(fanout, wire)
			fanout, wire = start()
		}
		time.Sleep(20 * time.Millisecond)
	}
	type pair struct{ user, recipient schemas.UserID }
	read := func() (delivered map[pair][]schemas.Version, versions []schemas.Version) {
		delivered = map[pair][]schemas.Version{}
		w.read(schemas.Deliveries, func(r *schemas.Record) error {
			d, err := schemas.DecodeDelivery(r.Value)
			if err != nil {
				return err
			}
			for _, id := range d.Recipients {
				to := pair{d.Transition.User, id}
				delivered[to] = append(delivered[to], d.Transition.Version)
			}
			if d.Transition.User == star && !slices.Contains(versions, d.Transition.Version) {
				versions = append(versions, d.Transition.Version)
			}
			return nil
		})
		return delivered, versions
	}
	w.until("the last state is delivered to all", time.Minute, func() bool {
		delivered, _ := read()
		for i := range schemas.UserID(followers) {
			if all := delivered[pair{star, 100_000 + i}]; len(all) == 0 || all[len(all)-1] != last {
				return false
			}
		}
		for i := range schemas.UserID(changes) {
			if len(delivered[pair{10 + i, 200_000 + i}]) == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(5 * time.Second) // for what might come twice
	delivered, versions := read()
	if len(versions) > 10 {
		w.Errorf("%d changes led to %d expansions: %v", changes, len(versions), versions)
	}
	for to, all := range delivered {
		if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			w.Fatalf("of %d, %d received the versions %v", to.user, to.recipient, all)
		}
	}
}
