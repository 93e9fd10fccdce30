//go:build unix

package kafka_test

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// pipeline is every role as a process of its own, on real servers of the test's
// own. Its Dev sends requests to ingest and api.
type pipeline struct {
	*testkit.Dev
	servers *testkit.Servers
	policy  liveness.Settings
	roles   []*role
	// as gives a role more settings, NAME=value, which count before those of all.
	as func(role string) []string
}

type role struct {
	name          string
	listen, admin string
	*testkit.Program
}

// pipelinePolicy is quick, so that users come and go all the time.
func pipelinePolicy() liveness.Settings {
	policy := liveness.Defaults()
	policy.HeartbeatInterval, policy.OnlineTTL, policy.OfflineDebounce, policy.AwayTTL = 500*time.Millisecond, time.Second, 500*time.Millisecond, 3*time.Second
	return policy
}

// newPipeline starts servers with these options and every role on them, as an
// operator would: topics, migrations, roles.
func newPipeline(t *testing.T, options ...string) *pipeline {
	t.Helper()
	testkit.NeedKafka(t)
	return newPipelineOn(t, testkit.StartServers(t, options...))
}

func newPipelineOn(t *testing.T, on *testkit.Servers) *pipeline {
	t.Helper()
	return newPipelineIn(t, testkit.Mode{}, on, func(string) []string { return nil })
}

// newPipelineIn is newPipelineOn in a mode, of which the environment of the servers says the flags. as are the
// settings of a role besides.
func newPipelineIn(t *testing.T, m testkit.Mode, on *testkit.Servers, as func(role string) []string) *pipeline {
	t.Helper()
	path := testkit.Binary(t, "stillhere")
	p := &pipeline{servers: on, policy: pipelinePolicy(), as: as}
	p.Dev = &testkit.Dev{T: t, Broker: p.servers.Brokers()[0], Prefix: on.Env["STILLHERE_TOPIC_PREFIX"], Mode: m,
		Client: &http.Client{Timeout: 20 * time.Second}}
	t.Cleanup(p.Client.CloseIdleConnections)
	for _, command := range [][]string{{"topics", "apply", "--partitions", strconv.Itoa(testkit.DevPartitions)}, {"migrate"}} {
		p.must(path, command...)
	}
	for _, name := range []string{"ingest", "detector", "lastseen", "fanout", "api"} {
		p.roles = append(p.roles, &role{name: name, listen: testkit.FreePort(t), admin: testkit.FreePort(t)})
	}
	for _, r := range p.roles {
		p.start(r)
	}
	p.In, p.Listen, p.Program = p.roles[0].listen, p.roles[4].listen, p.roles[4].Program
	p.allReady(time.Minute)
	return p
}

// start starts a role.
func (p *pipeline) start(r *role) {
	p.Helper()
	more := p.as(r.name)
	settings := func(c *exec.Cmd) {
		p.settings(c)
		c.Env = append(c.Env, more...)
	}
	r.Program = testkit.Start(p.T, testkit.Binary(p.T, "stillhere"), settings,
		append([]string{r.name, "--instance", "one", "--listen", r.listen, "--admin", r.admin}, testkit.PolicyFlags(p.policy)...)...)
}

// settings gives a process the addresses as the environment of up has them.
func (p *pipeline) settings(c *exec.Cmd) {
	for name, value := range p.servers.Env {
		c.Env = append(c.Env, name+"="+value)
	}
}

func (p *pipeline) must(path string, arguments ...string) string {
	p.Helper()
	command := exec.Command(path, arguments...)
	command.Env = os.Environ()
	p.settings(command)
	out, err := command.CombinedOutput()
	if err != nil {
		p.Fatalf("%v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// allReady waits until every role says that it has caught up.
func (p *pipeline) allReady(limit time.Duration) {
	p.Helper()
	for _, r := range p.roles {
		var last string
		if !testkit.Within(limit, func() bool {
			response, err := p.Client.Get("http://" + r.admin + "/readyz")
			if err != nil {
				last = err.Error()
				return false
			}
			defer response.Body.Close()
			last = response.Status
			return response.StatusCode == http.StatusOK
		}) {
			p.Fatalf("after %s %s is not ready: %s; it said last:\n%s", limit, r.name, last, testkit.Tail(r.Err.String(), 3000))
		}
	}
}

// database makes a database on a Postgres server, named by the URL of another one, and returns its URL.
func database(t *testing.T, server, name string) string {
	t.Helper()
	if out, err := exec.Command("psql", "-q", server, "-c", "CREATE DATABASE "+name).CombinedOutput(); err != nil {
		t.Fatalf("making the database %s: %v\n%s", name, err, out)
	}
	t.Cleanup(func() { _ = exec.Command("psql", "-q", server, "-c", "DROP DATABASE "+name+" WITH (FORCE)").Run() })
	return regexp.MustCompile(`/[^/?]+(\?|$)`).ReplaceAllString(server, "/"+name+"$1")
}

// memory is the greatest resident memory of a role, in MiB.
func (p *pipeline) memory() (most float64) {
	p.Helper()
	for _, r := range p.roles {
		most = max(most, r.Memory("VmHWM"))
	}
	return most
}

// stillUp checks that no role has ended.
func (p *pipeline) stillUp() {
	p.Helper()
	for _, r := range p.roles {
		if !r.Running() {
			p.Fatalf("%s has ended with exit code %d:\n%s", r.name, r.Command.ProcessState.ExitCode(), testkit.Tail(r.Err.String(), 3000))
		}
	}
}

// counted is what a pipeline has done, seen from outside.
type counted struct{ records, transitions, rows, doubled int }

// judge waits until all users are offline, and holds transitions, rows and
// answers to what the rules say of the heartbeats in the log.
func (p *pipeline) judge(users []schemas.UserID) counted {
	p.Helper()
	testkit.Until(p.T, "all users are offline", 30*time.Second, func() bool {
		for _, state := range p.States(users...) {
			if state != "offline" {
				return false
			}
		}
		return true
	})
	want := p.Oracle(p.policy)
	p.LogHas(want)
	var c counted
	reader := p.Reader()
	for partition := range int32(testkit.DevPartitions) {
		count := func(topic schemas.Topic, n *int) {
			err := reader.Read(p.Context(), topic, partition, -1, -1, true, func(*schemas.Record) error { *n++; return nil })
			must.Do(p, err)
		}
		count(schemas.Heartbeats, &c.records)
		count(schemas.Transitions, &c.transitions)
	}
	wanted := 0
	for user, transitions := range want {
		wanted += len(transitions)
		got := p.HistoryOf(user, len(transitions))
		testkit.Chained(p.T, user, got)
		if !slices.EqualFunc(got, transitions, func(e testkit.Entry, t schemas.Transition) bool { return e.Event == t.EventID().String() }) {
			p.Errorf("the history of user %d has %d rows, not those %d that the rules want", user, len(got), len(transitions))
		}
		c.rows += len(got)
	}
	if c.doubled = c.transitions - wanted; c.doubled != 0 || c.rows != wanted {
		p.Errorf("%d transitions are committed and %d rows written, the rules want %d", c.transitions, c.rows, wanted)
	}
	return c
}

func TestEveryRoleWorksAsAProcessOfItsOwnOnRealServers(t *testing.T) {
	p := newPipeline(t)
	p.MustSend(testkit.Beat{User: 1, Device: 7, Kind: "mobile"})
	for _, state := range []string{"online", "away", "offline"} {
		testkit.Until(t, "user 1 is "+state, 10*time.Second, func() bool { return p.State(1) == state })
	}
	history := p.HistoryOf(1, 3)
	at := history[0].At
	silent := schemas.Millis((p.policy.OnlineTTL + p.policy.OfflineDebounce).Milliseconds())
	for i, want := range []testkit.Entry{{From: "offline", To: "online", At: at}, {From: "online", To: "away", At: at + silent},
		{From: "away", To: "offline", At: at + schemas.Millis(p.policy.AwayTTL.Milliseconds())}} {
		if got := history[i]; got.From != want.From || got.To != want.To || got.At != want.At {
			t.Errorf("change %d is %+v, must be %+v", i, got, want)
		}
	}
	if text := p.must(testkit.Binary(t, "stillhere"), "explain", history[1].Event); !strings.Contains(text, "It gives the published change") {
		t.Errorf("explain says %s", text)
	}
	if path, err := exec.LookPath("kcat"); err == nil {
		p.KcatWrites(path, [][2][]byte{testkit.OneBeat(2)}, "-X", "partitioner=murmur2_random")
		p.AllAre("online", []schemas.UserID{2})
	}
	p.judge([]schemas.UserID{1, 2})
	for _, r := range slices.Backward(p.roles) {
		r.Stop()
	}
}
