package virtual

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pipe"
	"github.com/stillhere/stillhere/schemas"
)

// A world is a few megabytes, and collecting its garbage took a fifth of the time.
func init() { debug.SetGCPercent(400) }

// world is everything around the processes, in virtual time.
type world struct {
	*testing.T
	kafka  *embedded.Kafka
	redis  *embedded.Redis
	bases  *network
	config app.Config // of all processes, but for names and addresses
	http   *http.Client
	log    *slog.Logger
	tap    *tap

	before map[string]bool // the bubble's goroutines that are none of the processes'
	ends   []func()        // end what the test has begun; the last comes first
	writer *kafka.Producer // see write
}

// size is what a world is made of.
type size struct {
	partitions int32
	brokers    int // of Kafka [1]
	// tick is how often the detector ticks [250ms]: less often takes less real time.
	tick time.Duration
	// named makes a pipeline whose users have names.
	named bool
	// unsigned is a pipeline without --frame-keys.
	unsigned bool
	// slow makes everything that happens again and again happen rarely, for tests
	// that last a day.
	slow bool
	// limit is how long the test may take in real time [5m]: virtual time that
	// stands still would otherwise look like a test that hangs.
	limit time.Duration
}

// beginnings are when worlds begin. Instants of 32 bits wrap at 2026-11-21 21:25:29.728 UTC,
// and change their sign 24.8 days later.
var beginnings = []time.Time{
	time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 11, 21, 21, 25, 0, 0, time.UTC),
	time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC),
	time.Date(2026, 12, 16, 17, 55, 30, 0, time.UTC),
	time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
	time.Date(2036, 5, 6, 7, 8, 9, 0, time.UTC),
}

// beginning is that of a test's world: its name decides, or STILLHERE_TEST_BEGINNING, which is
// an index of beginnings.
func beginning(t *testing.T) time.Time {
	t.Helper()
	hash := fnv.New32a()
	hash.Write([]byte(t.Name()))
	i := int(hash.Sum32() % uint32(len(beginnings)))
	if text := os.Getenv("STILLHERE_TEST_BEGINNING"); text != "" {
		var err error
		if i, err = strconv.Atoi(text); err != nil || i < 0 || i >= len(beginnings) {
			t.Fatalf("STILLHERE_TEST_BEGINNING must be from 0 to %d, is %q", len(beginnings)-1, text)
		}
	}
	return beginnings[i]
}

// inWorld runs test in a bubble whose clock shows its beginning, and checks at the end
// that the processes have left nothing behind.
//
// Tests in virtual time run in parallel, each with one processor at a time for the most part.
func inWorld(t *testing.T, of size, test func(w *world)) {
	t.Helper()
	if !virtualTime {
		t.Skip("virtual time needs the Kafka client's channel mutexes: go test -tags synctests")
	}
	t.Parallel()
	if of.limit == 0 {
		of.limit = 5 * time.Minute
	}
	limit := time.AfterFunc(of.limit, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s takes longer than %s in real time\n%s", t.Name(), of.limit, stacks[:runtime.Stack(stacks, true)]))
	})
	defer limit.Stop()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		// Event ids are KSUIDs, which cannot name a time before 2014.
		time.Sleep(time.Until(beginning(t)))
		w := newWorld(t, of, dir)
		defer w.close()
		test(w)
	})
}

// long leaves a test out of the plain test command, which has three minutes on two cores.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("STILLHERE_FULL") == "" {
		t.Skip("takes seconds of both cores: STILLHERE_FULL=1 runs it, as .ci/run does")
	}
}

// inBothWorlds is inWorld in int mode and in text mode. In text mode users of the default tenant are called by
// their numbers: endpoints are asked as in int mode, and their answers name the same users, while the ids inside
// are those of the names (see id).
func inBothWorlds(t *testing.T, of size, test func(w *world)) {
	t.Helper()
	t.Parallel()
	for _, named := range []bool{false, true} {
		name := identity.Int
		if named {
			name = identity.Text
		}
		t.Run(string(name), func(t *testing.T) {
			of := of
			of.named = named
			inWorld(t, of, test)
		})
	}
}

// id is the id inside of the user with a number.
func (w *world) id(number schemas.UserID) schemas.UserID {
	users := clusterOf(w.config).Users
	if !users.Text() {
		return number
	}
	return users.ID("", number.String())
}

// name is what the user with a number is called; nothing in int mode.
func (w *world) name(number schemas.UserID) schemas.Name {
	if !clusterOf(w.config).Users.Text() {
		return schemas.Name{}
	}
	return schemas.Name{Text: number.String()}
}

// master is that of every world whose frames are signed.
var master = signing.Master{1}

// keyOf is the key of a gateway that writes to Kafka itself.
func (w *world) keyOf(gateway schemas.GatewayID) string {
	w.Helper()
	key := must.Get(master.GatewayKey(gateway, nil))(w)
	return key.Text()
}

// clusterOf is how the tests reach the Kafka of a configuration.
func clusterOf(c app.Config) kafka.Config {
	cluster, err := kafka.Settings(c.Kafka).Config()
	if err != nil {
		panic(err)
	}
	return cluster
}

func newWorld(t *testing.T, of size, dir string) *world {
	t.Helper()
	level := slog.LevelError + 4
	if os.Getenv("STILLHERE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	w := &world{T: t, bases: newNetwork(),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("test", t.Name())}
	clean, clock := time.Duration(0), time.Duration(0)
	if of.slow {
		clean, clock = time.Minute, time.Minute
	}
	w.kafka = must.Get(embedded.StartKafka(embedded.KafkaConfig{Virtual: new(kfake.VirtualNetwork), Brokers: of.brokers, CleanerInterval: clean, Log: w.log}))(t)
	w.redis = must.Get(embedded.StartRedis(embedded.RedisConfig{Clock: clock}))(t)
	w.http = &http.Client{Transport: &http.Transport{DialContext: w.bases.dial, MaxIdleConnsPerHost: 100}}

	c := app.Defaults()
	c.Listener = w.bases.listen
	c.Kafka.Brokers, c.Kafka.Dialer = w.kafka.Addrs(), w.kafka.Dialer()
	c.Redis.Addrs, c.Redis.Dialer = []string{w.redis.Addr()}, pipe.DialRedis(w.redis.Server())
	c.Store = app.Store{SQLite: filepath.Join(dir, "stillhere.db")}
	c.Kafka.TickInterval = of.tick
	if of.slow {
		c.Kafka.TickInterval, c.Kafka.IdleCommitInterval, c.Kafka.WatermarkInterval = 4*time.Second, 30*time.Second, 30*time.Second
		c.TopicsEvery = time.Hour
		c.Kafka.SessionTimeout, c.Kafka.RebalanceTimeout, c.Kafka.StallTimeout = 4*time.Minute, time.Minute, time.Minute
		c.Ingest.AliveInterval = 1750 * time.Millisecond
		c.Lastseen.StaleAfter = 2 * time.Minute
	}
	if of.named {
		c.Kafka.IDs, c.Kafka.IdentityKey = string(identity.Text), identity.Key{1}.Hex()
	}
	if !of.unsigned {
		c.Kafka.FrameKeys = filepath.Join(dir, "frame.keys")
		must.Do(t, os.WriteFile(c.Kafka.FrameKeys, []byte(master.Hex()), 0o600))
	}
	w.config = c
	must.Get(admin.ApplyTopics(t.Context(), clusterOf(c), of.partitions, 1))(t)
	w.tap = newTap(w, of.partitions)
	synctest.Wait()
	w.before = map[string]bool{}
	for id := range goroutines() {
		w.before[id] = true
	}
	return w
}

// close stops what the test has left running and ends the world.
func (w *world) close() {
	for _, end := range slices.Backward(w.ends) {
		end()
	}
	w.http.CloseIdleConnections()
	w.tap.close()
	// The cluster does not notice that a client has gone while it holds back the
	// answer to a fetch.
	time.Sleep(10 * time.Second)
	synctest.Wait()
	for id, stack := range goroutines() {
		// The cluster makes a manager for every group and keeps it as long as the cluster lives.
		if !w.before[id] && !strings.Contains(stack, "kfake.(*group).manage") {
			w.Errorf("after all processes have stopped: %s", stack)
		}
	}
	w.redis.Close()
	w.kafka.Close()
}

// goroutines are the stacks of the goroutines in the caller's bubble, by id. goleak looks at those of
// all bubbles.
func goroutines() map[string]string {
	stacks := make([]byte, 1<<20)
	for n := runtime.Stack(stacks, true); n == len(stacks); n = runtime.Stack(stacks, true) {
		stacks = make([]byte, 2*len(stacks))
	}
	all := regexp.MustCompile(`(?m)^goroutine (\d+) .*(synctest bubble \d+).*:\n(?:.+\n?)*`).FindAllStringSubmatch(string(bytes.TrimRight(stacks, "\x00")), -1)
	bubble := all[0][2] // runtime.Stack begins with the goroutine that calls it
	ours := map[string]string{}
	for _, goroutine := range all {
		if goroutine[2] == bubble {
			ours[goroutine[1]] = goroutine[0]
		}
	}
	return ours
}

// process is a role that runs.
type process struct {
	w      *world
	name   string
	base   string // base URL of its endpoints
	admin  string // and of what operators see
	cancel context.CancelFunc
	ended  chan error
	ready  chan struct{}
	over   bool
}

// start runs a role under a name and waits until it is ready.
func (w *world) start(role, name string, change ...func(*app.Config)) *process {
	w.Helper()
	p := w.begin(role, name, change...)
	p.awaitReady()
	return p
}

// startAll runs every role in a process of its own, named after it. The one that
// keeps the store comes first, for a SQLite file is not made by several processes
// at a time; the others get ready together, because who answers reads waits for
// who keeps the status.
func (w *world) startAll() map[string]*process {
	w.Helper()
	all := map[string]*process{"lastseen": w.start("lastseen", "lastseen")}
	for _, role := range []string{"detector", "fanout", "ingest", "api"} {
		all[role] = w.begin(role, role)
	}
	for _, p := range all {
		p.awaitReady()
	}
	return all
}

// begin runs a role under a name. Every process has its endpoints at its own port,
// the same after a restart.
func (w *world) begin(role, name string, change ...func(*app.Config)) *process {
	w.Helper()
	port := 8000
	for _, c := range name {
		port = (port*31 + int(c)) % 25_000
	}
	config := w.config
	config.Instance, config.TenantQuotas = name, schemas.DefaultQuotas
	config.Listen, config.Admin = fmt.Sprint("127.0.0.1:", 10_000+2*port), fmt.Sprint("127.0.0.1:", 10_001+2*port)
	for _, c := range change {
		c(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{w: w, name: name, base: "http://" + config.Listen, admin: "http://" + config.Admin, cancel: cancel, ended: make(chan error, 1), ready: make(chan struct{})}
	w.ends = append(w.ends, p.stop)
	go func() { p.ended <- app.Run(ctx, role, config, w.log, func() { close(p.ready) }) }()
	return p
}

func (p *process) awaitReady() {
	p.w.Helper()
	select {
	case <-p.ready:
	case err := <-p.ended:
		p.ended <- err
		p.w.Fatalf("%s ended instead of getting ready: %v", p.name, err)
	case <-time.After(2 * time.Minute):
		_, why := p.w.ask(http.MethodGet, p.admin+"/readyz", nil)
		p.w.Fatalf("%s is not ready after two minutes: %s", p.name, why)
	}
}

// stop stops the process gracefully and waits for its end, which must be clean.
func (p *process) stop() {
	p.w.Helper()
	if p.over {
		return
	}
	p.over = true
	p.cancel()
	select {
	case err := <-p.ended:
		if err != nil {
			p.w.Errorf("%s did not stop cleanly: %v", p.name, err)
		}
	case <-time.After(2 * time.Minute):
		p.w.Fatalf("%s has not stopped after two minutes", p.name)
	}
}

// now is the bubble's time.
func now() schemas.Millis { return schemas.MillisOf(time.Now()) }

// sleepTo sleeps until an instant; one that has passed is a fault of the test.
func (w *world) sleepTo(at schemas.Millis) {
	w.Helper()
	d := time.Until(at.Time())
	if d < 0 {
		w.Errorf("it is %s past the instant at which something was to happen", -d)
	}
	time.Sleep(d)
}

// until waits, in virtual time, for what must become true.
func (w *world) until(what string, limit time.Duration, true func() bool) {
	w.Helper()
	for start := time.Now(); !true(); time.Sleep(100 * time.Millisecond) {
		if time.Since(start) > limit {
			w.Fatalf("after %s still not: %s", limit, what)
		}
	}
}
