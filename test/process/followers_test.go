//go:build unix

package process_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/fanout/pggraph"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// crowdOf is an expansion whose workers are killed.
type crowdOf struct {
	followers int // of the celebrity; two in three are online
	kills     int
	rate      string // at which the workers work, so that kills come in the middle
	between   time.Duration
	every     int // kills between two versions
}

func TestKillsOfFanoutWorkersReachEveryOnlineFollowerOnce(t *testing.T) {
	testkit.InBothModes(t, killsOfFanoutWorkers)
}

func killsOfFanoutWorkers(t *testing.T, m testkit.Mode) {
	size := crowdOf{followers: 30_000, kills: 3, rate: "15000", between: 900 * time.Millisecond, every: 2}
	if os.Getenv("STILLHERE_LONG") != "" {
		size = crowdOf{followers: 1_000_000, kills: 50, rate: "60000", between: 2 * time.Second, every: 10}
	}
	path := testkit.Binary(t, "stillhere")
	w := newFollowerWorld(t, m.OneTenant(), size)
	mode := m.Flags(t)
	start := func(name string) *testkit.Program {
		return testkit.Start(t, path, nil, append([]string{"fanout", "--kafka-brokers", w.kafka.Brokers[0], "--redis", w.redis, "--postgres", w.postgres,
			"--followers", "all", "--fanout-rate", size.rate, "--high-follower", "1000",
			"--instance", name, "--admin", "", "--log-level", "warn"}, mode...)...)
	}
	names := []string{"one", "two"}
	workers := []*testkit.Program{start(names[0]), start(names[1])}
	version := schemas.Version(0)
	// The celebrity changes now and then, so that jobs are overtaken as well.
	for kill := range size.kills {
		if kill%size.every == 0 {
			version++
			w.change(version)
		}
		<-time.After(size.between/2 + rand.N(size.between))
		victim := rand.IntN(len(workers))
		workers[victim].Kill()
		workers[victim] = start(names[victim])
	}
	want := w.here()
	testkit.Until(t, "every online follower receives the last version", 10*time.Minute, func() bool {
		return w.delivered(version) >= want
	})
	for _, p := range workers {
		p.Kill()
	}
	w.judge(version, want)
	t.Logf("%d kills, %d of %d followers online, version %d: each received the last once", size.kills, want, size.followers, version)
}

type followerWorld struct {
	*testing.T
	size            crowdOf
	celebrity       schemas.UserID
	followers       []schemas.UserID                // two in three are online
	index           map[schemas.UserID]int          // in followers
	names           map[schemas.UserID]schemas.Name // nil in int mode
	kafka           kafka.Config
	redis, postgres string
	producer        *kafka.Producer
	reader          *kafka.Reader
	next            map[int32]int64 // of each deliveries partition, where delivered continues
	counts          map[schemas.Version]int
	last            map[schemas.UserID]schemas.Version
}

func newFollowerWorld(t *testing.T, m testkit.Mode, size crowdOf) *followerWorld {
	t.Helper()
	redis := must.Get(embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(redis.Close)
	w := &followerWorld{T: t, size: size, kafka: kafkatest.Start(t, m.Users(), 4), redis: redis.Addr(),
		index: map[schemas.UserID]int{}, next: map[int32]int64{}, counts: map[schemas.Version]int{}, last: map[schemas.UserID]schemas.Version{}}
	w.kafka.MaxBuffered = 2_000_000
	users, names := m.People(1 + size.followers)
	w.celebrity, w.followers, w.names = users[0], users[1:], names
	for i, id := range w.followers {
		w.index[id] = i
	}
	_, w.postgres = testkit.Postgres(t)
	w.producer = kafkatest.Producer(t, w.kafka)
	w.reader = kafkatest.Reader(t, w.kafka)
	w.fill()
	return w
}

// isOnline says so of two followers in three.
func (w *followerWorld) isOnline(i int) bool { return i%3 != 0 }

// fill makes the followers and says who is online.
func (w *followerWorld) fill() {
	w.Helper()
	config := pggraph.Defaults()
	config.URL = w.postgres
	must.Do(w.T, pggraph.Migrate(w.Context(), config))
	store := must.Get(pggraph.Open(w.Context(), config))(w.T)
	defer store.Close()
	const chunk = 100_000
	var edges []graph.Edge
	var statuses []schemas.Outgoing
	var names graph.Names
	if w.names != nil {
		names = graph.Names{}
	}
	place := int64(0)
	for i, id := range w.followers {
		edges = append(edges, graph.Edge{User: w.celebrity, Follower: id})
		if w.names != nil {
			names[w.celebrity], names[id] = w.names[w.celebrity], w.names[id]
		}
		if w.isOnline(i) {
			s := schemas.Status{User: id, State: schemas.Online, Visibility: schemas.Everyone, Version: 1, Name: w.names[id]}
			statuses = append(statuses, schemas.Outgoing{Topic: schemas.Statuses, Partition: schemas.PartitionOf(id, 4), Key: id.Key(), Value: s.Encode()})
		}
		if len(edges) == chunk || i+1 == w.size.followers {
			must.Get(store.Load(w.Context(), "crowd", place, place+int64(len(edges)), edges, names))(w.T)
			must.Do(w.T, w.producer.AppendSync(w.Context(), statuses...))
			place += int64(len(edges))
			edges, statuses = edges[:0], statuses[:0]
			clear(names)
		}
	}
	must.Do(w.T, store.Optimize(w.Context()))
}

func (w *followerWorld) here() (n int) {
	for i := range w.followers {
		if w.isOnline(i) {
			n++
		}
	}
	return n
}

// change publishes a version of the celebrity.
func (w *followerWorld) change(version schemas.Version) {
	w.Helper()
	t := schemas.Transition{User: w.celebrity, From: schemas.Offline, To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: version, Name: w.names[w.celebrity]}
	must.Do(w.T, w.producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(w.celebrity, 4),
		Key: w.celebrity.Key(), Value: t.Encode()}))
}

// delivered reads what has come since, checks it, and counts the recipients of a version.
func (w *followerWorld) delivered(version schemas.Version) int {
	w.Helper()
	for p := range int32(4) {
		_, end, err := w.reader.Bounds(w.Context(), schemas.Deliveries, p)
		must.Do(w.T, err)
		if end == w.next[p] {
			continue
		}
		// To the end would mean to wait for transactions that the killed left open.
		ctx, cancel := context.WithTimeout(w.Context(), 200*time.Millisecond)
		err = w.reader.Read(ctx, schemas.Deliveries, p, w.next[p], end, true, func(r *schemas.Record) error {
			d, err := schemas.DecodeDelivery(r.Value)
			if err != nil {
				return err
			}
			w.next[p] = r.Offset + 1
			w.note(d)
			return nil
		})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.Fatal(err)
		}
	}
	return w.counts[version]
}

func (w *followerWorld) note(d *schemas.Delivery) {
	w.Helper()
	v := d.Transition.Version
	for i, r := range d.Recipients {
		place, follows := w.index[r]
		switch last := w.last[r]; {
		case !follows || !w.isOnline(place):
			w.Fatalf("%d received a delivery, and does not follow or is not online", r)
		case w.names != nil && (d.Transition.Name != w.names[w.celebrity] || len(d.Names) <= i || d.Names[i] != w.names[r].Text):
			w.Fatalf("%s received a delivery of %q that does not name it: %q", w.names[r], d.Transition.Name, d.Names)
		case last == v:
			w.Fatalf("%d received version %d twice", r, v)
		case last > v:
			w.Fatalf("%d received version %d after version %d", r, v, last)
		}
		w.last[r] = v
		w.counts[v]++
	}
}

func (w *followerWorld) judge(version schemas.Version, want int) {
	w.Helper()
	if got := w.delivered(version); got != want {
		w.Errorf("%d received version %d, %d are online", got, version, want)
	}
	for v, n := range w.counts {
		w.Logf("version %d: %d of %d received it", v, n, want)
	}
}
