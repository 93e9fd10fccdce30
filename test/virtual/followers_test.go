package virtual

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/expand"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/sqlitegraph"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// cable is a process's network, which can be cut for ever: what the process was about to
// write is not written, as with kill -9.
type cable struct {
	dial func(ctx context.Context, network, host string) (net.Conn, error)

	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (c *cable) connect(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, host)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, errors.Join(errors.New("the cable is cut"), conn.Close())
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// 184 changes of a user with many followers gave 3.51 M deliveries in 6 s.
func TestAFlappingCelebrityIsExpandedOnceASecondAndTheLastStateIsDelivered(t *testing.T) {
	for name, restart := range map[string]func(w *world, p *process, c *cable){
		"undisturbed": nil,
		"stopped and started": func(_ *world, p *process, _ *cable) {
			p.stop()
		},
		"killed": func(_ *world, p *process, c *cable) {
			c.cut()
			p.over = true
			p.cancel()
			<-p.ended // it cannot commit, and says so
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, size{partitions: 1, tick: time.Second}, func(w *world) { flap(w, restart) })
		})
	}
}

func flap(w *world, restart func(w *world, p *process, c *cable)) {
	const (
		star      = schemas.UserID(1)
		followers = 3_000
		changes   = 184
	)
	w.config.Graph = app.Store{SQLite: filepath.Join(w.TempDir(), app.GraphFile)}
	store, err := sqlitegraph.Open(w.Context(), w.config.Graph.SQLite)
	must.Do(w, err)
	defer store.Close()
	var edges []graph.Edge
	for i := range schemas.UserID(followers) {
		edges = append(edges, graph.Edge{User: star, Follower: 100_000 + i})
	}
	for i := range schemas.UserID(changes) { // everybody else has one follower and changes once
		edges = append(edges, graph.Edge{User: 10 + i, Follower: 200_000 + i})
	}
	if _, err := store.Add(w.Context(), edges); err != nil {
		w.Fatal(err)
	}
	start := func() (*process, *cable) {
		c := &cable{dial: w.config.Kafka.Dialer}
		return w.start("fanout", "fanout", func(config *app.Config) {
			config.Kafka.Dialer = c.connect
			config.Expand.Mode, config.Expand.Everyone = expand.All, true
			config.Expand.HighFollower, config.Expand.JobFollowers = 1_000, 1_000
		}), c
	}
	fanout, wire := start()
	producer, err := kafka.NewProducer(clusterOf(w.config), w.log, nil)
	must.Do(w, err)
	defer func() { _ = producer.Close(w.Context()) }()
	version := schemas.Version(0)
	change := func(user schemas.UserID) {
		version++
		t := &schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: now(), Cause: schemas.FirstBeat,
			Visibility: schemas.Everyone, Version: version}
		must.Do(w, producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Transitions, Key: user.Key(), Value: t.Encode()}))
	}
	last := schemas.Version(0)
	for i := range changes {
		change(star)
		last = version
		change(schemas.UserID(10 + i))
		if restart != nil && (i%60 == 40 || i == changes-1) { // a change waits, the last one among them
			restart(w, fanout, wire)
			fanout, wire = start()
		}
		time.Sleep(20 * time.Millisecond)
	}
	reader, err := kafka.NewReader(clusterOf(w.config), w.log)
	must.Do(w, err)
	defer reader.Close()
	type pair struct{ user, recipient schemas.UserID }
	read := func() (delivered map[pair][]schemas.Version, versions []schemas.Version) {
		delivered = map[pair][]schemas.Version{}
		n, err := reader.Partitions(w.Context(), schemas.Deliveries)
		for p := int32(0); p < n && err == nil; p++ {
			err = reader.Read(w.Context(), schemas.Deliveries, p, -1, -1, true, func(r *schemas.Record) error {
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
		}
		must.Do(w, err)
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
