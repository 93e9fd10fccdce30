//go:build unix

package process_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/manifests"
	"github.com/stillhere/stillhere/test/testkit"
)

// emptyWithoutFault are the metrics whose series appear, or grow, with a fault that this test does not
// cause. Every other query of a panel must have figures.
var emptyWithoutFault = []string{
	"stillhere_fanout_connections_refused_total", // all streams are taken
	"stillhere_fanout_disconnected_total",        // a viewer does not read
	"stillhere_kafka_connect_errors_total",       // a broker does not listen
	"stillhere_kafka_read_errors_total",          // a broker drops a connection
	"stillhere_stream_apply_retries_total",       // Redis or Postgres does not take a batch
	"stillhere_stream_dead_letters_total",        // a record cannot be read
	"stillhere_stream_gaps_total",                // records are missing
	"stillhere_stream_parked",                    // a record fails again and again
	"stillhere_stream_restore_seconds_bucket",    // a partition moves
	"stillhere_stream_session_restarts_total",    // a session fails
	"stillhere_stream_stalls_total",              // a partition makes no progress
}

// A real Prometheus loads the rules as they stand and answers every query of every alert and panel,
// while all services of docker-compose.yml, a webhook and simulated users run.
func TestEveryPanelHasFiguresInARealPrometheus(t *testing.T) {
	t.Parallel()
	server, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus: install Debian's package")
	}
	c := newContainers(t)
	c.more["STILLHERE_HIGH_FOLLOWER"] = "4" // user 1 of the demo has eight
	for _, step := range []string{"topics", "migrate", "follows"} {
		if code := c.start(step).Wait(time.Minute); code != 0 {
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
	c.start("crowd")
	p := startPrometheus(t, server, targets)

	queries, err := manifests.Queries()
	if err != nil {
		t.Fatal(err)
	}
	empty := map[string]bool{}
	testkit.Within(40*time.Second, func() bool {
		c.look()
		clear(empty)
		for _, q := range queries {
			if !strings.HasPrefix(q.Where, "alert ") && p.figures(q.Expr) == 0 && !fromFault(q) {
				empty[q.Where+": "+q.Expr] = true
			}
		}
		return len(empty) == 0
	})
	for query := range empty {
		t.Errorf("nothing is to be seen in %s", query)
	}
	for _, q := range queries {
		p.figures(q.Expr) // also those of alerts, of which most see nothing now
	}
}

// look reads as a viewer does, and opens and closes the socket of a device.
func (c *containers) look() {
	c.Helper()
	for _, path := range []string{"batch?user_ids=1,11,12", "11", "11/history"} {
		c.ask(http.MethodGet, "http://"+c.at("api", "STILLHERE_LISTEN")+"/presence/"+path, "")
	}
	socket, _, err := websocket.Dial(c.Context(), "ws://"+c.at("ingest", "STILLHERE_LISTEN")+"/presence/connect?user_id=5000000&device_id=1&device_kind=web", nil)
	if err != nil {
		c.Fatal(err)
	}
	_ = socket.Close(websocket.StatusNormalClosure, "") // the server may have closed it
}

func fromFault(q manifests.Query) bool {
	for _, metric := range emptyWithoutFault {
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
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
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
	answer, err := http.Get("http://" + p.at + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.Fatal(err)
	}
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
