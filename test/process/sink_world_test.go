//go:build unix

package process_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	sinkPartitions = 4
	sinkUsers      = 500
)

// sinkWorld is what the sink stands between: a broker in a process of its own, a
// private Postgres, and transitions as a detector could have written them.
type sinkWorld struct {
	*testing.T
	broker   string
	redis    *embedded.Redis
	cluster  *pgtest.Cluster
	database string // URL
	config   kafka.Config
	reader   *kafka.Reader
	producer *kafka.Producer

	mu      sync.Mutex // protects what follows
	log     []*schemas.Transition
	poison  int
	states  [sinkUsers + 1]schemas.State
	written atomic.Int64 // transitions acknowledged by the broker
}

func newSinkWorld(t *testing.T) *sinkWorld {
	w := &sinkWorld{T: t}
	w.cluster, w.database = testkit.Postgres(t)
	settings := pgstore.Defaults()
	settings.URL = w.database
	must.Do(t, pgstore.Migrate(t.Context(), settings))
	var err error
	w.redis, err = embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"})
	must.Do(t, err)
	t.Cleanup(w.redis.Close)
	_, w.broker = testkit.Broker(t)
	w.config = kafka.Config{Brokers: []string{w.broker}, InstanceName: "load"}
	_, err = admin.ApplyTopics(t.Context(), w.config, sinkPartitions, 1)
	must.Do(t, err)
	w.producer = kafkatest.Producer(t, w.config)
	w.reader = kafkatest.Reader(t, w.config)
	return w
}

// lastseen starts a process of the role.
func (w *sinkWorld) lastseen(path, instance string, change func(*exec.Cmd)) *testkit.Program {
	w.Helper()
	return testkit.Start(w.T, path, change, "lastseen", "--instance", instance, "--admin=", "--kafka-brokers", w.broker, "--redis", w.redis.Addr(), "--postgres", w.database)
}

// load writes some thousand transitions a second, and now and then a record that
// nobody can read, until stop, which waits until all are acknowledged.
func (w *sinkWorld) load() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	go func() {
		defer close(ended)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			w.write(random, 1+random.IntN(80), random.IntN(30) == 0)
			select {
			case <-quit:
				// So that the offset after the last record is written everywhere.
				w.write(random, 40*sinkPartitions, false)
				return
			case <-ticker.C:
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-ended })
	w.Cleanup(stop)
	return stop
}

func (w *sinkWorld) write(random *rand.Rand, n int, poison bool) {
	var outs []schemas.Outgoing
	w.mu.Lock()
	for range n {
		t := w.change(schemas.UserID(1 + random.IntN(sinkUsers)))
		outs = append(outs, schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(t.User, sinkPartitions), Key: t.User.Key(), Value: t.Encode()})
	}
	if poison {
		w.poison++
		outs = slices.Insert(outs, random.IntN(len(outs)), schemas.Outgoing{Topic: schemas.Transitions, Partition: random.Int32N(sinkPartitions), Value: []byte("poison")})
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := w.producer.AppendSync(ctx, outs...); err != nil {
		w.Errorf("writing transitions: %v", err)
	}
	w.written.Add(int64(n))
}

// change is the next change of a user; mu is held.
func (w *sinkWorld) change(user schemas.UserID) *schemas.Transition {
	t := &schemas.Transition{User: user, From: max(w.states[user], schemas.Offline), To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat,
		Device: 7, Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: schemas.Everyone, Version: schemas.NewVersion(1, int64(len(w.log)), 0), Policy: "p-1"}
	t.LastSeen, t.LastActive = t.At-11, t.At-1013
	if t.From == schemas.Online {
		t.To, t.Cause, t.Device, t.Kinds = schemas.Offline, schemas.Silent, 0, 0
	}
	w.states[user] = t.To
	w.log = append(w.log, t)
	return t
}

// ask reads one row with a connection of its own; false when Postgres does not
// answer.
func (w *sinkWorld) ask(sql string, into ...any) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, w.database)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, sql).Scan(into...) == nil
}

// rows is how many rows the log has, or -1.
func (w *sinkWorld) rows() int64 {
	n := int64(-1)
	w.ask(`SELECT count(*) FROM status_changes`, &n)
	return n
}

// caughtUp waits until the store has everything that is in the topic.
func (w *sinkWorld) caughtUp(limit time.Duration) {
	w.Helper()
	var behind string
	if !testkit.Within(limit, func() bool {
		behind = ""
		for p := range int32(sinkPartitions) {
			_, end, err := w.reader.Bounds(w.Context(), schemas.Transitions, p)
			next := int64(-1)
			if err != nil || !w.ask(fmt.Sprintf(`SELECT next_offset FROM sink_offsets WHERE partition = %d`, p), &next) || next < end {
				behind += fmt.Sprintf("partition %d is at %d of %d (%v); ", p, next, end, err)
			}
		}
		return behind == ""
	}) {
		w.Fatalf("after %s not everything is in Postgres: %s", limit, behind)
	}
}

// judge compares the tables with what was written: by counting, by a hash over all
// event ids, and user by user; and the dead letters with the poison.
func (w *sinkWorld) judge() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]string, len(w.log))
	current := map[schemas.UserID]schemas.Current{}
	for i, t := range w.log {
		ids[i] = t.EventID().String()
		current[t.User] = store.After(current[t.User], t)
	}
	slices.Sort(ids)
	sum := md5.Sum([]byte(strings.Join(ids, ",")))
	want := hex.EncodeToString(sum[:])
	var rows, distinct int64
	var hash string
	if !w.ask(`SELECT count(*), count(DISTINCT event_id), coalesce(md5(string_agg(event_id, ',' ORDER BY event_id)), '') FROM status_changes`, &rows, &distinct, &hash) {
		w.Fatal("Postgres does not answer")
	}
	w.Logf("%d transitions were written, %d rows are there, %d event ids; hash %s, must be %s", len(w.log), rows, distinct, hash, want)
	if rows != int64(len(w.log)) || distinct != rows || hash != want {
		w.Error("the rows are not the transitions")
	}
	var users []string
	for user, c := range current {
		users = append(users, fmt.Sprintf("%d %s %d", user, schemas.StateWord(c.State), c.Version))
	}
	slices.Sort(users)
	var got string
	if !w.ask(`SELECT string_agg(line, ',' ORDER BY line COLLATE "C") FROM (SELECT format('%s %s %s', user_id, state, version) FROM user_presence) AS users (line)`, &got) {
		w.Fatal("Postgres does not answer")
	}
	if wanted := strings.Join(users, ","); got != wanted {
		w.Errorf("the users are\n%s\nmust be\n%s", testkit.Tail(got, 500), testkit.Tail(wanted, 500))
	}
	w.lettersAre(w.poison)
}

// lettersAre checks that every record that cannot be read is a dead letter; some
// may be there twice, after a kill.
func (w *sinkWorld) lettersAre(want int) {
	w.Helper()
	places := map[string]bool{}
	partitions, err := w.reader.Partitions(w.Context(), schemas.DeadLetter)
	for p := range partitions {
		err = errors.Join(err, w.reader.Read(w.Context(), schemas.DeadLetter, p, -1, -1, true, func(r *schemas.Record) error {
			if string(r.Header(kafka.HeaderGroup)) == "stillhere.lastseen.sink" {
				places[string(r.Header(kafka.HeaderOriginPartition))+"/"+string(r.Header(kafka.HeaderOriginOffset))] = true
			}
			return nil
		}))
	}
	if err != nil || len(places) != want {
		w.Errorf("%d records are dead letters (%v), %d cannot be read", len(places), err, want)
	}
}
