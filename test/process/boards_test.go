//go:build unix

package process_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// emptyHere are the metrics whose series appear, or grow, with a fault that this test does not
// cause: it would take too long. Every other query of a panel must have figures.
var emptyHere = []string{
	"stillhere_stream_gaps_total",   // records are deleted before the detector has read them, while it is away
	"stillhere_stream_parked",       // a record fails again and again, each time after a longer pause
	"stillhere_stream_stalls_total", // a partition makes no progress for 15 s
}

// boardTenants are the tenants of the users, who have names: panels of pipelines with integers have the same
// queries, and those by tenant have figures only here.
var boardTenants = []string{"acme", "zeta"}

// A real Prometheus loads the rules as they stand and answers every query of every alert and panel,
// while all services of docker-compose.yml, a webhook and simulated users run, and faults happen.
func TestEveryPanelHasFiguresInARealPrometheus(t *testing.T) {
	t.Parallel()
	server, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus: install Debian's package")
	}
	c := newContainers(t)
	c.more["STILLHERE_HIGH_FOLLOWER"] = "4" // user-1 has eight
	c.more["STILLHERE_IDS"], c.more["STILLHERE_IDENTITY_KEY"] = "text", identity.NewKey().Hex()
	for _, step := range []string{"topics", "migrate", "follows"} {
		p := c.start
		if step == "follows" {
			p = c.startFollows
		}
		if code := p(step).Wait(time.Minute); code != 0 {
			t.Fatalf("%s ended with %d", step, code)
		}
	}
	roles := []string{"ingest", "detector", "lastseen", "fanout", "api", "canary"}
	for _, role := range roles {
		c.programs[role] = c.start(role)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	targets := map[string]string{"webhook": testkit.FreePort(t), "failing": testkit.FreePort(t)}
	for _, role := range roles {
		c.waitHealthy(role)
		targets[role] = c.at(role, "STILLHERE_ADMIN")
	}
	testkit.Start(t, c.program, func(command *exec.Cmd) { command.Env = c.environment("fanout") }, "channel", "webhook",
		"--url", receiver.URL, "--admin", targets["webhook"])
	testkit.Start(t, c.program, nil, "canary", "--url", "http://127.0.0.1:1", "--timeout", "1s", "--interval", "5s", "--admin", targets["failing"])
	targets["astray"], targets["second"] = c.startAstray(), c.startSecond()
	c.startCrowd()
	p := startPrometheus(t, server, targets)
	c.badViewers()
	// The first one alone has announced the policy, which the panel of retries shows.
	testkit.Until(t, "the first detector is known, and the second has partitions", time.Minute, func() bool {
		return p.figures(`rate(stillhere_stream_forwards_total{role="detector"}[1m])`) > 0 &&
			p.figures(`stillhere_stream_restore_seconds_count{role="second"}`) > 0
	})
	c.programs["detector"].Stop()
	c.deadLetter()

	queries := must.Get(manifests.Queries())(t)
	empty := map[string]bool{}
	testkit.Within(40*time.Second, func() bool {
		c.look()
		if p.figures("stillhere_stream_apply_retries_total") == 0 {
			c.cutPostgres()
		}
		clear(empty)
		for _, q := range queries {
			if !strings.HasPrefix(q.Where, "alert ") && p.figures(q.Expr) == 0 && !mayBeEmpty(q) {
				empty[q.Where+": "+q.Expr] = true
			}
		}
		return len(empty) == 0
	})
	for query := range empty {
		t.Errorf("nothing is to be seen in %s", query)
	}
	p.seesTenants(queries)
	for _, q := range queries {
		p.figures(q.Expr) // also those of alerts, of which most see nothing now
	}
}

// look reads as a viewer does, and opens and closes the socket of a device.
func (c *containers) look() {
	c.Helper()
	for _, path := range []string{"batch?tenant=acme&user_ids=user-1&user_ids=user-11", "users/user-11?tenant=zeta", "users/user-11/history?tenant=zeta"} {
		c.ask(http.MethodGet, "http://"+c.at("api", "STILLHERE_LISTEN")+"/presence/"+path, "")
	}
	socket, answer, err := websocket.Dial(c.Context(), "ws://"+c.at("ingest", "STILLHERE_LISTEN")+"/presence/connect?tenant=acme&user_id=viewer&device_id=1&device_kind=web", nil)
	if answer != nil && answer.StatusCode == http.StatusTooManyRequests {
		return // the crowd has used up the tenant's quota; the next look tries again
	}
	must.Do(c, err)
	_ = socket.Close(websocket.StatusNormalClosure, "") // the server may have closed it
}

// startFollows gives user-1 of a tenant eight followers.
func (c *containers) startFollows(name string) *testkit.Program {
	c.Helper()
	followers := []string{"graph", "edges", "--tenant", boardTenants[0]}
	for i := range 9 {
		followers = append(followers, fmt.Sprint("user-", i+1))
	}
	return testkit.Start(c.T, c.program, func(command *exec.Cmd) { command.Env = c.environment(name) }, followers...)
}

// startCrowd starts simulated users of the tenants.
func (c *containers) startCrowd() {
	c.Helper()
	words := append(slices.Clone([]string(c.compose.Services["crowd"].Command)), "--ids", "text")
	for _, tenant := range boardTenants {
		words = append(words, "--tenant", tenant)
	}
	testkit.Start(c.T, c.program, func(command *exec.Cmd) { command.Env = c.environment("crowd") }, words...)
}

// seesTenants checks that the panels by tenant show each tenant.
func (p *promServer) seesTenants(queries []manifests.Query) {
	p.Helper()
	seen := 0
	for _, q := range queries {
		if strings.HasPrefix(q.Where, "alert ") || !strings.Contains(q.Expr, "by (tenant)") {
			continue
		}
		seen++
		for _, tenant := range boardTenants {
			if p.figures(fmt.Sprintf(`((%s) > 0) and on (tenant) label_replace(vector(1), "tenant", %q, "", "")`, q.Expr, tenant)) == 0 {
				p.Errorf("nothing of tenant %s is to be seen in %s: %s", tenant, q.Where, q.Expr)
			}
		}
	}
	if seen < 2 {
		p.Errorf("%d panels are by tenant, must be at least the users online and the changes", seen)
	}
}

// startAstray starts a webhook that reaches no Kafka: nobody listens at one of its two addresses, and
// at the other one each connection ends at once. It returns where its metrics are.
func (c *containers) startAstray() string {
	c.Helper()
	hangsUp := must.Get(net.Listen("tcp", "127.0.0.1:0"))(c)
	c.Cleanup(func() { hangsUp.Close() })
	go func() {
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	admin := testkit.FreePort(c.T)
	testkit.Start(c.T, c.program, func(command *exec.Cmd) {
		command.Env = []string{"STILLHERE_KAFKA_BROKERS=127.0.0.1:1," + hangsUp.Addr().String()}
	}, "channel", "webhook", "--url", "http://127.0.0.1:1", "--admin", admin)
	return admin
}

// startSecond starts another detector, which takes over what the first one leaves, and returns where
// its metrics are.
func (c *containers) startSecond() string {
	c.Helper()
	admin := testkit.FreePort(c.T)
	testkit.Start(c.T, c.program, func(command *exec.Cmd) {
		command.Env = append(c.environment("detector"), "STILLHERE_INSTANCE=detector-2", "STILLHERE_ADMIN="+admin)
	}, c.compose.Services["detector"].Command...)
	return admin
}

// deadLetter writes a record that nobody can read among the heartbeats.
func (c *containers) deadLetter() {
	c.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.moved["kafka:9092"]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must.Do(c, err)
	defer client.Close()
	topic := schemas.Heartbeats.Name(cmp.Or(c.more["STILLHERE_TOPIC_PREFIX"], schemas.DefaultPrefix))
	record := &kgo.Record{Topic: topic, Value: []byte("\xff\xff\xff")}
	must.Do(c, client.ProduceSync(c.Context(), record).FirstErr())
}

// badViewers are two: the page of the first is of another origin, the second sends too often.
func (c *containers) badViewers() {
	c.Helper()
	at := "ws://" + c.at("api", "STILLHERE_LISTEN") + "/presence/stream"
	options := &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}}
	if _, _, err := websocket.Dial(c.Context(), at, options); err == nil {
		c.Fatal("a stream for another origin was not refused")
	}
	socket, _, err := websocket.Dial(c.Context(), at, nil)
	must.Do(c, err)
	defer socket.CloseNow()
	for range 1000 {
		if err := socket.Write(c.Context(), websocket.MessageText, []byte("{}")); err != nil {
			break // the server has ended it
		}
	}
	ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
	defer cancel()
	for err == nil {
		_, _, err = socket.Read(ctx)
	}
	if ctx.Err() != nil {
		c.Fatal("a stream whose viewer sends too often was not ended")
	}
}

// cutPostgres ends all sessions of the database, so that what works in one has to try again.
func (c *containers) cutPostgres() {
	c.Helper()
	database := c.moved[manifests.Value(c.compose.Services["migrate"], "STILLHERE_POSTGRES")]
	must.Do(c, pgtest.Exec(c.Context(), database, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`))
}

func mayBeEmpty(q manifests.Query) bool {
	for _, metric := range emptyHere {
		if strings.Contains(q.Expr, metric) {
			return true
		}
	}
	return false
}

// promServer is a Prometheus server of the test's own.
type promServer struct {
	*testing.T
	at string
}

func startPrometheus(t *testing.T, server string, targets map[string]string) *promServer {
	t.Helper()
	dir := t.TempDir()
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: stillhere\n    static_configs:\n",
		filepath.Join(manifests.Root(), "deploy", "prometheus", "rules", "stillhere.yml"))
	for role, at := range targets {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {role: %s}}\n", at, role)
	}
	file := filepath.Join(dir, "prometheus.yml")
	must.Do(t, os.WriteFile(file, []byte(config.String()), 0o600))
	p := &promServer{t, testkit.FreePort(t)}
	testkit.Start(t, server, nil, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.at)
	testkit.Until(t, "Prometheus is ready", 30*time.Second, func() bool {
		answer, err := http.Get("http://" + p.at + "/-/ready")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return p
}

// figures is how many series a query has now that are numbers. A query that Prometheus refuses fails the test.
func (p *promServer) figures(query string) (n int) {
	p.Helper()
	answer := must.Get(http.Get("http://" + p.at + "/api/v1/query?query=" + url.QueryEscape(query)))(p)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(p)
	var found struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(text, &found); err != nil || found.Status != "success" {
		p.Fatalf("%s: %v: %s", query, err, text)
	}
	for _, series := range found.Data.Result {
		if series.Value[1] != "NaN" {
			n++
		}
	}
	return n
}
