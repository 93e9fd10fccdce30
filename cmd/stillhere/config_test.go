package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// authFile is the setting of a file with a secret that signs tokens.
func authFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	return "auth-secret-file: " + file + "\n"
}

// stillhere runs the command with a configuration file; empty: none.
func stillhere(t *testing.T, file string, args ...string) (code int, out, errs string) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "stillhere.yaml")
		must.Do(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	var o, e strings.Builder
	code = run(args, &o, &e)
	return code, o.String(), e.String()
}

func TestSettingsThatCannotWorkAreRefusedByTheirNames(t *testing.T) {
	const pg = "postgres: postgres://stillhere@localhost/stillhere\n"
	for name, c := range map[string]struct {
		file string
		args []string
		want []string // all of them
	}{
		"unknown key":                  {"log-lvel: info\n", nil, []string{`line 1: there is no setting "log-lvel"; did you mean "log-level"?`}},
		"unknown key, beside a fault":  {"log-lvel: info\nsasl: PLAIN\npolicy: idle_after=-1s\n", nil, []string{`did you mean "log-level"?`, `"sasl"; did you mean "kafka-sasl"?`, "idle_after: "}},
		"unknown key, and no value":    {"log-lvel: info\npolicy: idle_after=long\n", nil, []string{`did you mean "log-level"?`, "idle_after"}},
		"unknown keys, nested":         {"kafka:\n  brokers: [a:9092]\n  colour: red\nshoe: 42\n", nil, []string{`line 3: there is no setting "kafka-colour"`, `line 4: there is no setting "shoe"`}},
		"twice":                        {"log-level: info\nlog_level: warn\n", nil, []string{"log-level is given twice"}},
		"not YAML":                     {"log-level: [info\n", nil, []string{"--config"}},
		"not a mapping":                {"- a\n", nil, []string{"must be a list of names and values"}},
		"bad unit":                     {pg + "policy: online_ttl=30 parsecs\n", nil, []string{"--policy", "online_ttl", "parsecs"}},
		"no policy":                    {pg + "policy: [loud]\n", nil, []string{`--policy: "loud" is neither a preset nor NAME=VALUE`}},
		"ttl below two intervals":      {pg + "policy: heartbeat_interval=20s\n", nil, []string{"online_ttl"}},
		"several, together":            {pg + "policy: [online_ttl=0s, away_ttl=-1s, allowed_lateness=-1s]\n", nil, []string{"online_ttl", "away_ttl", "allowed_lateness"}},
		"faults of all kinds together": {"listen: 0.0.0.0:80\nauth-secret-file: /nowhere/secret\nkafka-brokers: [here]\nredis-cluster: true\nredis: redis://127.0.0.1:6379/3\n", nil, []string{"--auth-secret-file", `--kafka-brokers: "here"`, "--redis: a cluster has only database 0", "--postgres: a URL is needed"}},
		"a door open to all":           {pg + "listen: 0.0.0.0:80\n", nil, []string{"no authentication is configured"}},
		"mechanism":                    {pg + "kafka-sasl: KERBEROS\n", nil, []string{"--kafka-sasl"}},
		"file that is not there":       {pg + "kafka-tls: true\nkafka-tls-ca: /nowhere/ca.pem\n", nil, []string{"--kafka-tls", "/nowhere/ca.pem"}},
		"Postgres pool":                {pg + "postgres-max-conns: 0\n", nil, []string{"--postgres-max-conns"}},
		"retention of a store":         {pg + "audit-retention: 1h\nredis-retention: 1s\n", nil, []string{"--audit-retention", "--redis-retention"}},
		"retention of topics":          {pg + "retention: [heartbeats=9m, deliveries=1s]\n", nil, []string{"--retention: heartbeats: must be at least 10m0s", "deliveries: must"}},
		"a topic that is none":         {pg + "retention: beats=9m\n", nil, []string{`--retention: "beats" is no topic`}},
		"a retention without a unit":   {pg + "retention: graph=9\n", nil, []string{`--retention: graph: "9" must be a duration`}},
		"no file":                      {"", []string{"--config", "/nowhere/stillhere.yaml"}, []string{"/nowhere/stillhere.yaml"}},
	} {
		code, _, errs := stillhere(t, c.file, append([]string{"config", "check"}, c.args...)...)
		if code == 0 {
			t.Errorf("%s: passes", name)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: want %q in:\n%s", name, want, errs)
			}
		}
		if strings.Contains(errs, "short") {
			t.Errorf("%s: shows a secret:\n%s", name, errs)
		}
	}
}

func TestUnsignedHeartbeatsAreRefusedWhereCallersAreAuthenticatedAndOthersReachKafka(t *testing.T) {
	t.Parallel()
	const pg, others, here = "postgres: postgres://u@h/db\n", "kafka-brokers: [127.0.0.1:1, kafka:9092]\n", "kafka-brokers: [127.0.0.1:1]\n"
	const open = "listen: 0.0.0.0:80\nallow-unauthenticated: true\n"
	auth := authFile(t)
	for _, c := range []struct {
		role, file string
		refused    bool
	}{
		{"ingest", others + auth, true}, {"all", others + auth, true}, {"detector", others + auth, true}, {"detector", others, true},
		{"detector", others + auth + open, true}, {"ingest", here + auth, false}, {"detector", here + auth, false}, {"detector", here, false},
		{"ingest", others, false}, {"ingest", others + open, false}, {"detector", others + open, false},
		{"api", others + auth, false}, {"lastseen", others + auth, false},
	} {
		code, _, errs := stillhere(t, pg+c.file, "config", "check", c.role)
		if refused := strings.Contains(errs, "--frame-keys: is needed"); refused != c.refused || refused != (code != 0) {
			t.Errorf("%s with\n%s: exit code %d\n%s", c.role, c.file, code, errs)
		}
	}
}

func TestTheCheckOfSettingsSaysWhetherHeartbeatsAreSigned(t *testing.T) {
	t.Parallel()
	master := signing.NewMaster()
	file := filepath.Join(t.TempDir(), "frame.keys")
	must.Do(t, os.WriteFile(file, []byte(master.Hex()), 0o600))
	auth := authFile(t)
	for _, c := range []struct{ role, file, says string }{
		{"detector", "frame-keys: " + file, "# heartbeats are signed, and unsigned ones refused; masters: " + master.Fingerprint() + "\n"},
		{"ingest", auth, "can hide, erase and log out all users; set --frame-keys\n"},
		{"ingest", "policy: online_ttl=31s", "# heartbeats are not signed, and detectors take them from any producer\n"},
		{"fanout", "postgres: postgres://u@h/db", ""},
	} {
		code, out, errs := stillhere(t, c.file, "config", "check", c.role)
		if code != 0 || !strings.Contains(out, c.says) || c.says == "" && strings.Contains(out, "# heartbeats are") {
			t.Errorf("%s with %s: exit code %d\n%s%s", c.role, c.file, code, out, errs)
		}
	}
}

func TestTheCommandLineGoesBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	t.Setenv("STILLHERE_AUDIT_RETENTION", "600h")
	t.Setenv("STILLHERE_REDIS_RETENTION", "70h")
	code, out, errs := stillhere(t, "seen: {interval: 31s}\naudit_retention: 800h\nredis-retention: 80h\npostgres: postgres://u@h/db\nkafka: {brokers: [a:1, b:2]}\n",
		"config", "check", "--redis-retention", "90h")
	if code != 0 {
		t.Fatal(errs)
	}
	for name, want := range map[string]string{
		"fanout-gap:": "1s default", "seen-interval:": "31s stillhere.yaml:1", "audit-retention:": "600h0m0s STILLHERE_AUDIT_RETENTION",
		"redis-retention:": "90h0m0s command line", "kafka-brokers:": "a:1,b:2 stillhere.yaml:5",
	} {
		for line := range strings.Lines(out) {
			words := strings.Fields(line)
			if len(words) < 4 || words[0] != name {
				continue
			}
			from := strings.Join(words[3:], " ")
			if got := words[1] + " " + from[strings.LastIndex(from, "/")+1:]; got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if !strings.Contains(out, "\n"+name) {
			t.Errorf("%s is not shown", name)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	for _, secret := range []string{"KAFKA_PASSWORD", "AUTH_SECRET", "REDIS_SENTINEL_PASSWORD", "KAFKA_OAUTH_CLIENT_SECRET"} {
		t.Setenv("STILLHERE_"+secret, "swordfish")
	}
	_, out, errs := stillhere(t, "postgres: postgres://u:swordfish@h/db?sslpassword=swordfish\nredis: redis://u:swordfish@h:6379\n", "config", "check")
	if strings.Contains(out+errs, "swordfish") {
		t.Error(out, errs)
	}
	for _, postgres := range []string{"host=h user=u password=swordfish", "postgres://u:swordfish@/db?host=h"} {
		if _, out, _ = stillhere(t, "postgres: '"+postgres+"'\n", "config", "check"); strings.Contains(out, "swordfish") || !strings.Contains(out, "postgres") {
			t.Error(out)
		}
	}
}

func TestTheExampleIsAConfigurationFile(t *testing.T) {
	_, example, errs := stillhere(t, "", "config", "init")
	if errs != "" {
		t.Fatal(errs)
	}
	var all strings.Builder // every setting with its default
	for line := range strings.Lines(example) {
		if name, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(name, " ") {
			all.WriteString(name)
		}
	}
	if code, _, errs := stillhere(t, all.String(), "config", "check", "--postgres", "postgres://u@h/db"); code != 0 {
		t.Fatal(errs)
	}
}

func TestAConfigurationIsShownWithoutWhatURLsCarry(t *testing.T) {
	const file = "postgres: postgres://u:hush@h/d?password=hush\nauth-jwks: https://u:hush@h/keys?token=hush\nredis: rediss://u:hush@h:1\n" +
		"schema-registry: http://u:hush@h?key=hush\n"
	code, out, errs := stillhere(t, file, "config", "check")
	if strings.Contains(out+errs, "hush") || !strings.Contains(out, "h/keys") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

func TestTheCostOfTheRetentionGrowsWithIt(t *testing.T) {
	t.Parallel()
	for retention, want := range map[string]string{"240h": "24.00 GB", "480h": "48.00 GB"} {
		code, out, errs := stillhere(t, "", "config", "check", "--postgres", "postgres://u@h/db", "--retention", "transitions="+retention)
		if code != 0 || !strings.Contains(out, want+"  = 1M × 20 changes a day ×") {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", retention, code, want, out, errs)
		}
	}
}

func TestAFileSaysNothingOfFlagsThatAreOfOneCallAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	must.Do(t, os.WriteFile(file, []byte("timeout: 1s\nfrom-start: true\n"), 0o600))
	cli := new(commands)
	f := must.Get(readConfigFile(file))(t)
	parser := must.Get(newParser(cli, kong.Resolvers(f)))(t)
	must.Get(parser.Parse([]string{"policy", "set", "online_ttl=45s"}))(t)
	if cli.Policy.Set.Timeout != 30*time.Second {
		t.Errorf("timeout of the canary makes policy set wait %s", cli.Policy.Set.Timeout)
	}
	must.Get(parser.Parse([]string{"graph", "edges", "--file", file}))(t)
	if cli.Graph.Edges.FromStart {
		t.Error("that of channel webhook makes graph edges begin anew")
	}
	must.Get(parser.Parse([]string{"channel", "log"}))(t)
	if cli.Channel.Log.FromStart {
		t.Errorf("from-start of channel webhook makes channel log begin at the start")
	}
}
