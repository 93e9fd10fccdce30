package virtual

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client"
	clientgateway "github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestSocketsHearOfAnotherHeartbeatIntervalWithinAMinuteWithoutARestart(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		w.start("detector", "detector")
		time.Sleep(5 * time.Second) // the policy is in force
		before := w.config.Policy
		in := w.start("ingest", "ingest", func(c *app.Config) { c.PolicyAsked = []string{"heartbeat_interval"} })
		open := w.connect(in.base, 1, 7, "web")
		beat := func(seconds int, sockets ...*socket) {
			for range seconds / 5 {
				time.Sleep(5 * time.Second)
				for _, s := range sockets {
					s.ping()
				}
			}
		}
		const differs = "stillhere_policy_differs"
		beat(60, open)
		if got := open.hellos(); len(got) != 1 || !strings.Contains(got[0], `"heartbeat_interval_ms":15000`) {
			w.Fatalf("before the change the socket hears %q", got)
		}
		w.metricIs("0", differs, in)

		after := before
		after.HeartbeatInterval = 5 * time.Second
		must.Do(w, policy.Set(context.Background(), clusterOf(w.config), after, w.log))
		beat(60, open)
		if got := open.hellos(); len(got) != 2 || !strings.Contains(got[1], `"heartbeat_interval_ms":5000`) {
			w.Errorf("a minute after the change the socket has heard %q", got)
		}
		w.metricIs("1", differs, in) // its flags ask for the interval before
		next := w.connect(in.base, 2, 7, "web")
		beat(30, open, next)
		if got := next.hellos(); len(got) != 1 || !strings.Contains(got[0], `"heartbeat_interval_ms":5000`) {
			w.Errorf("a socket of after the change hears %q", got)
		}

		must.Do(w, policy.Set(context.Background(), clusterOf(w.config), before, w.log))
		beat(60, open, next)
		if got := next.hellos(); len(got) != 2 || !strings.Contains(got[1], `"heartbeat_interval_ms":15000`) {
			w.Errorf("a minute after it was changed back the socket has heard %q", got)
		}
		w.metricIs("0", differs, in)
		open.leave()
		next.leave()
	})
}

// Sockets, streams and gateways are open before the first detector brings a policy into force.
func TestEveryHelloHasThePolicyInForceWhateverTheFlagsOfItsProcess(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		asks := func(interval time.Duration) func(*app.Config) {
			return func(c *app.Config) {
				c.PolicyAsked, c.Policy.HeartbeatInterval = []string{"heartbeat_interval"}, interval
			}
		}
		w.start("lastseen", "lastseen")
		in, read := w.start("ingest", "ingest"), w.begin("api", "api")
		g, err := clientgateway.Dial(context.Background(), clientgateway.Config{ID: "gw-1", Key: w.keyOf("gw-1"), Log: w.log,
			Kafka: client.Kafka{Brokers: w.config.Kafka.Brokers, Dial: w.config.Kafka.Dialer}})
		must.Do(w, err)
		sockets := []*socket{w.connect(in.base, 1, 7, "web")}
		var viewers []*viewer
		agree := func(interval, jitter time.Duration) {
			w.Helper()
			sockets = append(sockets, w.connect(in.base, schemas.UserID(1+len(sockets)), 7, "web"))
			for _, s := range sockets {
				s.ping() // so that it stays open
			}
			viewers = append(viewers, w.watch(read.base, 1))
			want := fmt.Sprintf(`"heartbeat_interval_ms":%d,"heartbeat_jitter_ms":%d,`, interval.Milliseconds(), jitter.Milliseconds())
			for i, s := range sockets {
				hellos := s.hellos()
				if last := hellos[len(hellos)-1]; !strings.Contains(last, want) {
					w.Errorf("socket %d has last heard %s, want %s", i, last, want)
				}
			}
			for i, v := range viewers {
				hellos := v.messages(watch.Hello)
				if last := hellos[len(hellos)-1].Schedule(); last != schemas.ScheduleOf(interval, jitter) {
					w.Errorf("viewer %d has last heard %+v, want %s", i, last, interval)
				}
			}
			if got := g.Schedule(); got != schemas.ScheduleOf(interval, jitter) {
				w.Errorf("the gateway's schedule is %+v, want %s", got, interval)
			}
		}
		pass := func(seconds int) {
			for range seconds / 5 {
				time.Sleep(5 * time.Second)
				for _, s := range sockets {
					s.ping()
				}
			}
		}
		time.Sleep(10 * time.Second)                 // api is ready only when answers are fresh, but it serves
		agree(15*time.Second, 1500*time.Millisecond) // the default, for nobody has asked for anything

		w.start("detector", "detector", asks(5*time.Second))
		pass(40)
		agree(5*time.Second, 500*time.Millisecond)
		for _, role := range []string{"ingest", "api"} {
			other := w.begin(role, role+"-other", asks(time.Second))
			other.over = true
			if err := <-other.ended; err == nil || !strings.Contains(err.Error(), "heartbeat_interval: this process was started with 1s, in force is 5s") {
				w.Errorf("%s with other flags ends with %v", role, err)
			}
		}

		after := w.config.Policy
		after.HeartbeatInterval, after.HeartbeatJitter = 10*time.Second, 4*time.Second
		must.Do(w, policy.Set(context.Background(), clusterOf(w.config), after, w.log))
		pass(65)
		agree(10*time.Second, 4*time.Second)
		for _, v := range viewers {
			v.stop()
		}
		for _, s := range sockets {
			s.leave()
		}
		must.Do(w, g.Close(context.Background()))
	})
}

// Two detectors that begin a new pipeline together both find no policy in force, and each
// brings its own into force in the partitions that it is given.
func TestPartitionsThatBeganWithDifferentPoliciesAreReportedByEveryRoleUntilOneIsSet(t *testing.T) {
	// Nothing is committed before the first tick, when the group has settled.
	inWorld(t, size{partitions: 4, tick: 2 * time.Second}, func(w *world) {
		said := &logged{Handler: w.log.Handler()}
		w.log = slog.New(said)
		asks := func(onlineTTL time.Duration) func(*app.Config) {
			return func(c *app.Config) {
				c.PolicyAsked, c.Policy.OnlineTTL = []string{"online_ttl"}, onlineTTL
				c.Policy.HeartbeatInterval = policy.Interval(onlineTTL)
			}
		}
		a, b := w.begin("detector", "detector-a", asks(40*time.Second)), w.begin("detector", "detector-b", asks(50*time.Second))
		a.awaitReady()
		b.awaitReady()
		time.Sleep(5 * time.Second) // both have committed
		in := w.start("ingest", "ingest")
		inForce := func() []policy.Partition {
			w.Helper()
			all := must.Get(policy.InForce(context.Background(), clusterOf(w.config)))(w)
			if len(all) != 4 {
				w.Fatalf("policies are in force in %d of 4 partitions", len(all))
			}
			return all
		}
		if policy.Divided(inForce()) == nil {
			w.Fatal("the two detectors have not begun with two policies")
		}
		const differs = "stillhere_policy_differs"
		time.Sleep(2 * time.Minute)
		w.metricIs("1", differs, a, b, in)
		mend, _ := policy.Newest(inForce())
		command := "stillhere policy set online_ttl=" + mend.OnlineTTL.String()
		if n := said.count("partitions go by different policies", command); n != 3 {
			w.Errorf("%d of 3 processes say that %q mends it", n, command)
		}

		// What the command does, with the settings of a process that is to start again.
		asked := policy.Change{Policy: mend, Names: []string{"online_ttl"}}
		must.Do(w, policy.Set(context.Background(), clusterOf(w.config), asked.To(mend), w.log))
		time.Sleep(2 * time.Minute)
		must.Do(w, policy.Divided(inForce()))
		same, other := a, b // whose flags ask for what is in force now, or do not
		if mend.OnlineTTL == 50*time.Second {
			same, other = b, a
		}
		w.metricIs("0", differs, same, in)
		w.metricIs("1", differs, other) // its flags ask for the other policy
		if n := said.count("all partitions go by one policy again"); n != 3 {
			w.Errorf("%d of 3 processes say that it is over", n)
		}
	})
}

// logged counts what is logged, and hands it on.
type logged struct {
	slog.Handler
	in *logged // which one keeps the lines; nil for itself

	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logged{Handler: l.Handler.WithAttrs(attrs), in: l.keeper()}
}

func (l *logged) WithGroup(name string) slog.Handler {
	return &logged{Handler: l.Handler.WithGroup(name), in: l.keeper()}
}

func (l *logged) keeper() *logged {
	if l.in != nil {
		return l.in
	}
	return l
}

func (l *logged) Handle(ctx context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	to := l.keeper()
	to.mu.Lock()
	to.lines = append(to.lines, line)
	to.mu.Unlock()
	if l.Handler.Enabled(ctx, r.Level) {
		return l.Handler.Handle(ctx, r)
	}
	return nil
}

// count tells how many lines have all the texts.
func (l *logged) count(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}
