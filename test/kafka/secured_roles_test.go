//go:build unix

package kafka_test

import (
	"crypto/tls"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// Each role logs in in another way, so that one run shows all of them.
var wayOf = map[string]string{"ingest": "SCRAM-SHA-512", "detector": "mutual TLS", "lastseen": "SCRAM-SHA-256", "fanout": "PLAIN", "api": "OAUTHBEARER"}

func TestEachRoleWithAUserOfItsOwnWorksOverTLSOnRealServers(t *testing.T) {
	s := startSecured(t)
	ways := s.ways()
	path := testkit.Binary(t, "stillhere")
	super := &pipeline{Dev: &testkit.Dev{T: t}, servers: s.Servers}
	super.must(path, "topics", "apply", "--partitions", "4")
	s.refuse(path, ways)
	for _, m := range testkit.Modes() { // one after the other: they share one broker, and each has all roles
		t.Run(m.Name, func(t *testing.T) { s.roles(t, m, ways) })
	}
}

// roles runs a pipeline of a mode, each role with the grants that "topics acls" names, and nothing more.
func (s *secured) roles(t *testing.T, m testkit.Mode, ways map[string]way) {
	on := s.of(t, m)
	super := &pipeline{Dev: &testkit.Dev{T: t}, servers: on}
	p := newPipelineIn(t, m, on, func(role string) []string {
		w := ways[wayOf[role]]
		super.must(testkit.Binary(t, "stillhere"), "topics", "acls", "--role", role, "--principal", w.principal, "--apply")
		return w.settings
	})
	var users []schemas.UserID
	users, p.People = m.People(1 + len(m.Tenants)) // in text mode the first one has a namesake in each tenant
	for range 2 {                                  // every role is started again in between, and finds what it left
		for _, user := range users {
			p.MustSend(testkit.Beat{User: user, Device: 7, Kind: "mobile"})
		}
		for _, state := range []string{"online", "away", "offline"} {
			testkit.Until(t, "the last user is "+state, 10*time.Second, func() bool { return p.State(users[len(users)-1]) == state })
		}
		p.judge(users)
		for _, r := range slices.Backward(p.roles) {
			if said := r.Err.String(); strings.Contains(said, "AUTHORIZATION_FAILED") {
				t.Errorf("%s lacks something:\n%s", r.name, testkit.Tail(said, 2000))
			}
			r.Stop()
			p.start(r)
		}
		p.allReady(time.Minute)
	}
}

// of are the servers for a pipeline of a mode: in text mode with topics and a database of its own.
func (s *secured) of(t *testing.T, m testkit.Mode) *testkit.Servers {
	t.Helper()
	on := *s.Servers
	on.T = t
	if !m.Text() {
		return &on
	}
	on.Env = maps.Clone(s.Env)
	maps.Copy(on.Env, m.Env())
	on.Env["STILLHERE_TOPIC_PREFIX"] = m.Name + "."
	on.Env["STILLHERE_POSTGRES"] = database(t, s.Env["STILLHERE_POSTGRES"], "named")
	return &on
}

// refuse tries what must not work, and what is said then.
func (s *secured) refuse(path string, ways map[string]way) {
	s.Helper()
	dir := s.TempDir()
	expired := filepath.Join(dir, "expired")
	must.Do(s.T, os.WriteFile(expired, []byte(s.token("token", -time.Minute)), 0o600))
	stranger := filepath.Join(dir, "stranger")
	other := *s
	other.issuer = newIssuer(s.T)
	must.Do(s.T, os.WriteFile(stranger, []byte(other.token("token", time.Hour)), 0o600))
	for _, c := range []struct {
		what string
		as   way
		want string
	}{
		{"PLAIN with a wrong password", ways["PLAIN"].with("STILLHERE_KAFKA_PASSWORD=wrong"), "the password or token is wrong"},
		{"SCRAM with a wrong password", ways["SCRAM-SHA-512"].with("STILLHERE_KAFKA_PASSWORD=wrong"), "the password or token is wrong"},
		{"an expired token", ways["OAUTHBEARER"].with("STILLHERE_KAFKA_OAUTH_TOKEN_FILE=" + expired), "the token: it is wrong or has expired"},
		{"a token of somebody else's", ways["OAUTHBEARER"].with("STILLHERE_KAFKA_OAUTH_TOKEN_FILE=" + stranger), "the token: it is wrong or has expired"},
		{"no certificate where one is wanted", ways["mutual TLS"].with("STILLHERE_KAFKA_TLS_CERT=", "STILLHERE_KAFKA_TLS_KEY="), "certificate"},
		{"no TLS where it is wanted", ways["PLAIN"].with("STILLHERE_KAFKA_TLS=false", "STILLHERE_KAFKA_TLS_CA="), "TLS"},
		{"no SASL where it is wanted", way{settings: ways["PLAIN"].settings[:3]}, "SASL"},
		{"nothing granted", ways["PLAIN"], "this user needs Describe on topic presence."},
	} {
		p := testkit.Start(s.T, path, func(command *exec.Cmd) { command.Env = append(command.Env, c.as.settings...) }, "topics", "apply", "--dry-run")
		if code := p.Wait(60 * time.Second); code != 1 || !strings.Contains(p.Err.String(), c.want) {
			s.Errorf("%s: topics apply --dry-run ends with %d and says\n%s\nwhich has no %q", c.what, code, testkit.Tail(p.Err.String(), 1000), c.want)
		}
	}
}

func TestEachRoleWorksWithJustWhatItNeedsOfApacheKafka(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	s := startSecured(t, "--only", "kafka")
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(s.Brokers()...)))(t)
	g := newGuarded(t, kafka.Config{Brokers: s.Brokers()}, client, func(c *kafka.Config, user, secret string) {
		c.Brokers = []string{s.sasl}
		c.Security = &kafka.Security{Mechanism: "SCRAM-SHA-256", User: user, Password: secret}
		c.Dialer = keys.TLS{CA: s.authority.CA}.Dialer(nil)
	})
	g.tls = &tls.Config{RootCAs: s.authority.Pool()}
	g.judge(4)
}
