package virtual

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/policy"
)

func TestSocketsHearOfAnotherHeartbeatIntervalWithinAMinuteWithoutARestart(t *testing.T) {
	inWorld(t, size{partitions: 2}, func(w *world) {
		w.start("detector", "detector")
		time.Sleep(5 * time.Second) // the policy is in force
		before := w.config.Policy
		in := w.start("ingest", "ingest", func(c *app.Config) { c.PolicyAsked = []string{"heartbeat_interval"} })
		open := w.connect(in.base, 1, 7, "web")
		hellos := func(s *socket) (all []string) {
			for _, m := range s.messages() {
				if strings.Contains(m, `"hello"`) {
					all = append(all, m)
				}
			}
			return all
		}
		beat := func(seconds int, sockets ...*socket) {
			for range seconds / 5 {
				time.Sleep(5 * time.Second)
				for _, s := range sockets {
					s.ping()
				}
			}
		}
		differs := func(want string) {
			w.Helper()
			if _, text := w.ask(http.MethodGet, in.admin+"/metrics", nil); !strings.Contains(string(text), "\nstillhere_policy_differs "+want+"\n") {
				w.Errorf("stillhere_policy_differs is not %s", want)
			}
		}
		beat(60, open)
		if got := hellos(open); len(got) != 1 || !strings.Contains(got[0], `"heartbeat_interval_ms":15000`) {
			w.Fatalf("before the change the socket hears %q", got)
		}
		differs("0")

		after := before
		after.HeartbeatInterval = 5 * time.Second
		if err := policy.Set(context.Background(), clusterOf(w.config), after, w.log); err != nil {
			w.Fatal(err)
		}
		beat(60, open)
		if got := hellos(open); len(got) != 2 || !strings.Contains(got[1], `"heartbeat_interval_ms":5000`) {
			w.Errorf("a minute after the change the socket has heard %q", got)
		}
		differs("1") // its flags ask for the interval before
		next := w.connect(in.base, 2, 7, "web")
		beat(30, open, next)
		if got := hellos(next); len(got) != 1 || !strings.Contains(got[0], `"heartbeat_interval_ms":5000`) {
			w.Errorf("a socket of after the change hears %q", got)
		}

		if err := policy.Set(context.Background(), clusterOf(w.config), before, w.log); err != nil {
			w.Fatal(err)
		}
		beat(60, open, next)
		if got := hellos(next); len(got) != 2 || !strings.Contains(got[1], `"heartbeat_interval_ms":15000`) {
			w.Errorf("a minute after it was changed back the socket has heard %q", got)
		}
		differs("0")
		open.leave()
		next.leave()
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
			all, err := policy.InForce(context.Background(), clusterOf(w.config))
			if err != nil {
				w.Fatal(err)
			}
			if len(all) != 4 {
				w.Fatalf("policies are in force in %d of 4 partitions", len(all))
			}
			return all
		}
		if policy.Divided(inForce()) == nil {
			w.Fatal("the two detectors have not begun with two policies")
		}
		differs := func(want string, of ...*process) {
			w.Helper()
			for _, p := range of {
				if _, text := w.ask(http.MethodGet, p.admin+"/metrics", nil); !strings.Contains(string(text), "\nstillhere_policy_differs "+want+"\n") {
					w.Errorf("%s: stillhere_policy_differs is not %s", p.name, want)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		differs("1", a, b, in)
		mend, _ := policy.Newest(inForce())
		command := "stillhere policy set --online-ttl=" + mend.OnlineTTL.String()
		if n := said.count("partitions go by different policies", command); n != 3 {
			w.Errorf("%d of 3 processes say that %q mends it", n, command)
		}

		// What the command does, with the settings of a process that is to start again.
		asked := policy.Change{Policy: mend, Names: []string{"online_ttl"}}
		if err := policy.Set(context.Background(), clusterOf(w.config), asked.To(mend), w.log); err != nil {
			w.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if err := policy.Divided(inForce()); err != nil {
			w.Error(err)
		}
		same, other := a, b // whose flags ask for what is in force now, or do not
		if mend.OnlineTTL == 50*time.Second {
			same, other = b, a
		}
		differs("0", same, in)
		differs("1", other) // its flags ask for the other policy
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
