//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// outageWorld is every role as a process of its own, on servers that the test can take away.
type outageWorld struct {
	*testing.T
	broker   *embedded.Kafka
	config   embedded.KafkaConfig
	redis    *redisServer
	postgres *pgtest.Cluster
	roles    map[string]*testkit.Dev
}

var outageRoles = []string{"ingest", "detector", "lastseen", "fanout", "api", "all"}

func newOutageWorld(t *testing.T) *outageWorld {
	t.Helper()
	testkit.Binary(t, "stillhere")
	w := &outageWorld{T: t, roles: map[string]*testkit.Dev{}}
	w.config = embedded.KafkaConfig{DataDir: t.TempDir(), Listen: testkit.FreePort(t), Log: slog.New(slog.DiscardHandler)}
	w.startKafka()
	t.Cleanup(func() { w.broker.Close() })
	must.Get(admin.ApplyTopics(t.Context(), kafka.Config{Brokers: w.broker.Addrs()}, testkit.DevPartitions, 1))(t)
	w.redis = startRedis(t, "")
	var url string
	w.postgres, url = testkit.Postgres(t)
	limits := pgstore.Defaults()
	limits.URL = url
	must.Do(t, app.Migrate(t.Context(), limits))
	for _, role := range outageRoles {
		w.roles[role] = testkit.NewRole(t)
		w.roles[role].Run(testkit.Binary(t, "stillhere"), role, role, nil, "--kafka-brokers", w.config.Listen, "--redis", w.redis.address,
			"--postgres", url, "--followers", "all", "--graph-topic")
	}
	for _, role := range outageRoles {
		testkit.Until(t, role+" is ready", time.Minute, func() bool { return strings.Contains(w.roles[role].Err.String(), `"msg":"ready"`) })
	}
	return w
}

func (w *outageWorld) startKafka() {
	w.Helper()
	var err error
	w.broker, err = embedded.StartKafka(w.config)
	must.Do(w.T, err)
}

// outage is a server that is away for a while.
type outage struct {
	dependency string
	lasts      time.Duration
	ready      map[string]string // what readiness says of roles meanwhile
	stop, back func(w *outageWorld)
}

var outages = []outage{
	{"kafka", 40 * time.Second, map[string]string{"ingest": "not ready", "api": "ready kafka"},
		func(w *outageWorld) { w.broker.Close() }, (*outageWorld).startKafka},
	{"redis", 12 * time.Second, map[string]string{"ingest": "ready redis", "api": "ready redis"},
		func(w *outageWorld) { w.redis.Kill() }, func(w *outageWorld) { w.redis = startRedis(w.T, w.redis.address) }},
	{"postgres", 12 * time.Second, map[string]string{"ingest": "ready store", "api": "ready follower graph store"},
		func(w *outageWorld) { must.Do(w.T, w.postgres.Kill()) }, func(w *outageWorld) { must.Do(w.T, w.postgres.Launch(w.Context())) }},
}

// readiness is what /readyz and /readyz?verbose answer.
func readiness(h *testkit.Dev) string {
	h.Helper()
	var report struct{ Degraded []string }
	for _, path := range []string{"/readyz", "/readyz?verbose"} {
		answer, err := h.Client.Get("http://" + h.Admin + path)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return "not ready"
		}
		if strings.Contains(path, "verbose") {
			must.Do(h, json.NewDecoder(answer.Body).Decode(&report))
		}
	}
	slices.Sort(report.Degraded)
	return strings.TrimSpace("ready " + strings.Join(report.Degraded, " "))
}

// isReady waits until a role answers so, and its metric says the same. One that is ready takes beats at once.
func (w *outageWorld) isReady(dependency, role, want string) {
	w.Helper()
	h, got := w.roles[role], ""
	if !testkit.Within(30*time.Second, func() bool { got = readiness(h); return got == want }) {
		w.Errorf("without %s %s is %q, want %q", dependency, role, got, want)
	}
	if degraded, ready := strings.CutPrefix(want, "ready "); ready && role == "ingest" {
		testkit.Until(w.T, "the metric reports it", 20*time.Second, func() bool {
			return h.Metric(`stillhere_degraded{what="`+degraded+`"}`) == 1
		})
		for range 20 {
			begun := time.Now()
			h.MustSend(testkit.Beat{User: 1, Device: 7})
			if took := time.Since(begun); took > 5*time.Second {
				w.Errorf("without %s a beat took %s", dependency, took)
			}
		}
	}
}

// use sends beats and watches users all the time, until ctx ends.
func (w *outageWorld) use(ctx context.Context) {
	for _, role := range []string{"ingest", "all", "api"} {
		h := w.roles[role]
		go func() {
			for ctx.Err() == nil {
				request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.Listen+"/presence/stream?user_ids=1,2,3", nil)
				request.Header.Set("Accept", "text/event-stream")
				if answer, err := http.DefaultClient.Do(request); err == nil {
					buffer := make([]byte, 4096)
					for err == nil {
						_, err = answer.Body.Read(buffer)
					}
					answer.Body.Close()
				}
				kafka.Pause(ctx, time.Second)
			}
		}()
		if role == "api" {
			continue
		}
		go func() {
			for i := 0; kafka.Pause(ctx, 500*time.Millisecond); i++ {
				_ = h.Send(testkit.Beat{User: schemas.UserID(1 + i%20), Device: 7, Kind: "web"}, testkit.Beat{User: schemas.UserID(1 + (i+9)%20), Device: 7, Bye: true})
				_, _, _ = w.roles["api"].Ask(http.MethodGet, "/presence/batch?user_ids=1,2,3", "", nil)
			}
		}()
	}
}

// maxOutageLines is how many lines a role may write in an outage of 40 s, from its begin until the process
// has recovered.
const maxOutageLines = 12

func TestAnOutageIsLoggedInAFewTrueLinesByEveryRole(t *testing.T) {
	t.Parallel()
	w := newOutageWorld(t)
	for role, h := range w.roles {
		checkIntroduction(t, role, h.Err.Lines())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.use(ctx)
	for _, o := range outages {
		before := map[string]int{}
		for role, h := range w.roles {
			before[role] = len(h.Err.Lines())
		}
		o.stop(w)
		over := time.After(span(o.lasts, 70*time.Second))
		for role, want := range o.ready {
			w.isReady(o.dependency, role, want)
		}
		<-over
		o.back(w)
		for _, role := range outageRoles {
			if role == "detector" && o.dependency != "kafka" {
				continue // it does not use the others
			}
			testkit.Until(t, role+" logs that "+o.dependency+" answers again", time.Minute, func() bool {
				return strings.Contains(strings.Join(w.roles[role].Err.Lines()[before[role]:], "\n"), `"msg":"`+o.dependency+` answers again"`)
			})
		}
		<-time.After(5 * time.Second) // for lines that come late
		for _, role := range outageRoles {
			lines := w.roles[role].Err.Lines()[before[role]:]
			t.Logf("%s away: %s wrote %d lines", o.dependency, role, len(lines))
			w.check(o.dependency, role, lines)
		}
	}
}

// check judges the lines that a role has written about an outage.
func (w *outageWorld) check(dependency, role string, lines []string) {
	w.Helper()
	text := strings.Join(lines, "\n")
	if len(lines) > maxOutageLines {
		w.Errorf("%s writes %d lines while %s is away:\n%s", role, len(lines), dependency, text)
	}
	checkLines(w.T, role, lines)
	want := 1
	if role == "detector" && dependency != "kafka" {
		want = 0
	}
	for _, message := range []string{" does not answer", " answers again"} {
		if n := strings.Count(text, `"msg":"`+dependency+message); n != want {
			w.Errorf("%s writes %q %d times while %s is away:\n%s", role, message, n, dependency, text)
		}
	}
	if want == 1 && (!strings.Contains(text, `"failures":`) || !strings.Contains(text, `"away_for":"`) || !strings.Contains(text, `"last_error":"`)) {
		w.Errorf("%s does not say how long, and what has failed:\n%s", role, text)
	}
}

// checkIntroduction holds that the first line of a role says what it is.
func checkIntroduction(t *testing.T, role string, lines []string) {
	t.Helper()
	checkLines(t, role, lines)
	for _, line := range lines {
		if !strings.Contains(line, `"msg":"starting"`) {
			continue
		}
		for _, key := range []string{"version", "commit", "policy", "instance", "role", "kafka", "admin", "partitions"} {
			if !strings.Contains(line, `"`+key+`":`) {
				t.Errorf("%s: the line lacks %s: %s", role, key, line)
			}
		}
		return
	}
	t.Errorf("%s does not say that it starts:\n%s", role, strings.Join(lines, "\n"))
}

// checkLines holds that every line is one JSON object without a key twice.
func checkLines(t *testing.T, role string, lines []string) {
	t.Helper()
	for _, line := range lines {
		if err := uniqueKeys(line); err != nil {
			t.Errorf("%s: %v: %s", role, err, line)
		}
	}
}

func uniqueKeys(line string) error {
	decoder := json.NewDecoder(strings.NewReader(line))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("is no JSON object: %w", err)
	}
	seen := map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if seen[name] {
			return fmt.Errorf("has the key %s twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return err
}
