//go:build unix

package process_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

const (
	steadyOnes = 200            // users who beat all the time
	flipper    = steadyOnes + 1 // one who comes before each fault ends and goes after it
)

// redisFault is something that happens to Redis. strike returns when it is over,
// and calls half when it is at its worst.
type redisFault struct {
	name   string
	strike func(w *redisWorld, half func())
	long   bool // only in the long run
}

// long reports whether the tests that take minutes are wanted.
func long() bool { return os.Getenv("STILLHERE_LONG") != "" }

// span is how long a fault lasts: short in the ordinary suite.
func span(short, full time.Duration) time.Duration {
	if long() {
		return full
	}
	return short
}

// redisFaults are faults 53 to 58 of the catalogue.
var redisFaults = []redisFault{
	{"emptied (FLUSHALL)", func(w *redisWorld, half func()) { w.redis.do("FLUSHALL"); half() }, false},
	{"killed, away, restarted empty", func(w *redisWorld, half func()) {
		w.redis.Kill()
		<-time.After(span(time.Second, time.Minute))
		half()
		w.redis = startRedis(w.T, w.redis.address)
	}, false},
	{"frozen (SIGSTOP)", func(w *redisWorld, half func()) {
		w.redis.Signal(syscall.SIGSTOP)
		<-time.After(span(2*time.Second, 20*time.Second))
		half()
		w.redis.Signal(syscall.SIGCONT)
	}, false},
	{"connections reset 100 times", func(w *redisWorld, half func()) {
		for i := range 100 {
			if w.relay.cut(); i == 50 {
				half()
			}
			<-time.After(span(10*time.Millisecond, 100*time.Millisecond))
		}
	}, false},
	{"keys evicted (maxmemory, allkeys-random)", func(w *redisWorld, half func()) {
		w.redis.do("CONFIG SET maxmemory-policy allkeys-random")
		w.redis.do("CONFIG SET maxmemory 1mb")
		<-time.After(span(time.Second, 20*time.Second))
		half()
		w.redis.do("CONFIG SET maxmemory 0")
		w.redis.do("CONFIG SET maxmemory-policy noeviction")
	}, true},
	{"full (maxmemory, noeviction)", func(w *redisWorld, half func()) {
		w.redis.do("CONFIG SET maxmemory 1mb")
		<-time.After(span(time.Second, 20*time.Second))
		half()
		w.redis.do("CONFIG SET maxmemory 0")
	}, true},
	{"slow (CLIENT PAUSE, 300 ms of each second)", func(w *redisWorld, half func()) {
		for i := range 20 {
			if w.redis.do("CLIENT PAUSE 300 ALL"); i == 10 {
				half()
			}
			<-time.After(time.Second)
		}
	}, true},
	{"primary lost, replica promoted that lacks the last second", func(w *redisWorld, half func()) {
		replica := startRedis(w.T, "", "--replicaof", "127.0.0.1", w.redis.address[strings.IndexByte(w.redis.address, ':')+1:])
		testkit.Until(w.T, "the replica has caught up", 20*time.Second, func() bool { return strings.Contains(replica.Out.String(), "Finished with success") })
		replica.Signal(syscall.SIGSTOP)
		<-time.After(time.Second)
		half()
		w.redis.Kill()
		replica.Signal(syscall.SIGCONT)
		replica.do("REPLICAOF NO ONE")
		w.redis = replica
		w.relay.lead(replica.address)
	}, true},
}

// redisWorld is the service on a private Redis.
type redisWorld struct {
	*testkit.Dev
	users []schemas.UserID // the steady ones, and the flipper
	redis *redisServer
	relay *relay

	mu                      sync.Mutex
	answers, failed, staled int // of the reads
	faults                  []string
	seen                    map[schemas.UserID]schemas.Presence // newest on the stream
	resyncs, changes        int
}

// Errors that are judged, not the program's.
func (w *redisWorld) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) < 20 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// newRedisWorld prepares a dev, of whose users in text mode all are of one tenant.
func newRedisWorld(t *testing.T, m testkit.Mode, flags ...string) *redisWorld {
	t.Helper()
	w := &redisWorld{Dev: testkit.NewDevIn(t, m, flags...), seen: map[schemas.UserID]schemas.Presence{}}
	w.users, w.People = m.OneTenant().People(flipper)
	return w
}

// TestNoFaultOfRedisTurnsAnybodyOffline strikes Redis while users beat, are read and
// are watched. STILLHERE_LONG=1 runs all faults at full length.
func TestNoFaultOfRedisTurnsAnybodyOffline(t *testing.T) {
	testkit.InBothModes(t, noFaultOfRedis)
}

func noFaultOfRedis(t *testing.T, m testkit.Mode) {
	first := startRedis(t, "")
	relay := startRelay(t, first.address)
	w := newRedisWorld(t, m, "--redis="+relay.address())
	w.redis, w.relay = first, relay
	w.Up()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	w.begin(ctx, &running)
	before := w.Memory("VmRSS")
	flips := 0
	for _, fault := range redisFaults {
		if fault.long && !long() {
			continue
		}
		flips++
		w.suffer(fault)
	}
	if after := w.Memory("VmRSS"); before > 0 && after > before+100 {
		t.Errorf("the service had %.0f MB before the faults and has %.0f MB after them", before, after)
	}
	cancel()
	running.Wait()
	w.countTransitions(steadyOnes + 2*flips)
	t.Logf("%d reads, of which %d failed and %d were said to be stale", w.answers, w.failed, w.staled)
}

// begin lets users beat, be read and be watched.
func (w *redisWorld) begin(ctx context.Context, running *sync.WaitGroup) {
	w.Helper()
	running.Go(func() { w.beatOn(ctx) })
	w.AllAre("online", w.steady())
	running.Go(func() { w.readOn(ctx) })
	running.Go(func() { w.watchOn(ctx) })
	testkit.Until(w.T, "the viewer has its snapshot", 20*time.Second, func() bool { return w.seenOf(w.users[0]) == "online" })
}

// suffer lets one fault happen and waits until all is well again.
func (w *redisWorld) suffer(fault redisFault) {
	w.Helper()
	w.mu.Lock()
	changes, resyncs := w.changes, w.resyncs
	w.mu.Unlock()
	begun := time.Now()
	fault.strike(w, func() { w.MustSend(testkit.Beat{User: w.flipper(), Device: 9, Kind: "web"}) })
	struck, over := time.Since(begun), time.Now()
	// The stream and the reads know what happened meanwhile, and that they do.
	testkit.Until(w.T, "after "+fault.name+" the viewer has heard of the one who came", 40*time.Second, func() bool { return w.seenOf(w.flipper()) == "online" })
	streamed := time.Since(over)
	testkit.Until(w.T, "after "+fault.name+" reads are fresh", 40*time.Second, func() bool {
		for _, user := range append(slices.Clone(w.users[:5]), w.users[steadyOnes-1:]...) {
			if p := w.User(user); p.StaleSince != 0 || p.State == nil || *p.State != "online" {
				return false
			}
		}
		return true
	})
	read := time.Since(over)
	w.MustSend(testkit.Beat{User: w.flipper(), Device: 9, Bye: true})
	testkit.Until(w.T, "after "+fault.name+" the viewer hears of the one who goes", 20*time.Second, func() bool { return w.seenOf(w.flipper()) == "offline" })
	w.mu.Lock()
	defer w.mu.Unlock()
	// As a row of deploy/FAULTS.md.
	w.Logf("| Redis %s | %s, %d users beating | 2 transitions, %d changes and %d resyncs on the stream | stream %s, reads fresh %s |",
		fault.name, struck.Round(100*time.Millisecond), steadyOnes, w.changes-changes, w.resyncs-resyncs, streamed.Round(10*time.Millisecond), read.Round(10*time.Millisecond))
}

func (w *redisWorld) steady() []schemas.UserID { return w.users[:steadyOnes] }
func (w *redisWorld) flipper() schemas.UserID  { return w.users[steadyOnes] }

// beatOn lets everybody beat, well inside the time to live.
func (w *redisWorld) beatOn(ctx context.Context) {
	ticker := time.NewTicker(3 * time.Second)
	defer ticker.Stop()
	for {
		beats := make([]testkit.Beat, steadyOnes)
		for i, user := range w.steady() {
			beats[i] = testkit.Beat{User: user, Device: 7, Kind: "mobile"}
		}
		if err := w.Send(beats...); err != nil && ctx.Err() == nil {
			w.wrong("a fault of Redis must not reach ingest: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// readOn reads everybody again and again.
func (w *redisWorld) readOn(ctx context.Context) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var some []schemas.UserID
		for i := range 50 {
			some = append(some, w.users[(n*50+i)%steadyOnes])
		}
		many := map[schemas.UserID]string{}
		one, err := w.FetchUser(some[0])
		if err == nil {
			many, err = w.FetchStates(some...)
		}
		w.mu.Lock()
		if w.answers++; err != nil {
			w.failed++
		} else if one.StaleSince != 0 {
			w.staled++
		}
		w.mu.Unlock()
		if err != nil {
			continue // no answer is no wrong answer
		}
		if one.State == nil || *one.State != "online" {
			w.wrong("user %d, who beats, reads as %+v", some[0], one)
		}
		for user, state := range many {
			if state != "online" {
				w.wrong("user %d, who beats, is not online in the batch", user)
			}
		}
	}
}

// watchOn watches everybody on one connection, which must last.
func (w *redisWorld) watchOn(ctx context.Context) {
	options := watch.Options{URL: "http://" + w.Listen + "/presence/stream", Tenant: w.People[w.flipper()].Tenant}
	ids := map[string]schemas.UserID{}
	for _, user := range w.users {
		ids[w.Called(user)] = user
		options.Users = append(options.Users, w.Called(user))
	}
	for m, err := range watch.Messages(ctx, options) {
		if err != nil || m.Type == watch.Error || m.Type == watch.Disconnected && ctx.Err() == nil {
			w.wrong("the stream: %+v %v %v", m.Problem, m.Cause, err)
			if err != nil {
				return
			}
		}
		users := m.Users
		w.mu.Lock()
		switch m.Type {
		case watch.Change:
			w.changes++
			users = append(users, *m.User)
		case watch.Resync:
			w.resyncs++
		}
		w.mu.Unlock()
		for _, p := range users {
			p.Presence.UserID = ids[p.UserID]
			w.hear(p.Presence)
		}
	}
}

func (w *redisWorld) hear(p schemas.Presence) {
	if p.UserID != w.flipper() && (p.State == nil || *p.State != "online") {
		w.wrong("the stream says of user %d, who beats: %+v", p.UserID, p)
	}
	w.mu.Lock()
	older := w.seen[p.UserID].Newer(p)
	w.seen[p.UserID] = p
	w.mu.Unlock()
	if older {
		w.wrong("the stream goes back to version %s of user %d", p.Version, p.UserID)
	}
}

func (w *redisWorld) seenOf(user schemas.UserID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.seen[user]; ok && p.State != nil {
		return *p.State
	}
	return ""
}

// countTransitions reports the faults, and checks that just so many changes are in the log, none twice.
func (w *redisWorld) countTransitions(want int) {
	w.Helper()
	for _, fault := range w.faults { // nothing runs any more
		w.Error(fault)
	}
	type change struct {
		user    schemas.UserID
		version schemas.Version
	}
	seen := map[change]int{}
	reader := w.Reader()
	for p := range int32(testkit.DevPartitions) {
		err := reader.Read(context.Background(), schemas.Transitions, p, -1, -1, true, func(r *schemas.Record) error {
			t, err := schemas.DecodeTransition(r.Value)
			if err == nil {
				seen[change{t.User, t.Version}]++
			}
			return err
		})
		must.Do(w, err)
	}
	if len(seen) != want {
		w.Errorf("%d transitions, want %d", len(seen), want)
	}
	for c, n := range seen {
		if n != 1 {
			w.Errorf("version %d of user %d is %d times in the log", c.version, c.user, n)
		}
	}
}
