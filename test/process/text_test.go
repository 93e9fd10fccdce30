//go:build unix

package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

// textWorld is a dev whose users have names, and the tools.
type textWorld struct {
	*testkit.Dev
	users  identity.Users
	flags  []string // of tools that know users
	kafka  []string // and that ask Kafka
	sqlite string
	graph  string
	ids    []string // internal ids, which no tool may print
}

func newTextWorld(t *testing.T, more ...string) *textWorld {
	t.Helper()
	h := testkit.NewDev(t, append(more, "--ids", "text")...)
	h.Up()
	file := filepath.Join(h.Dir, "identity.key")
	key := must.Get(os.ReadFile(file))(t)
	parsed := must.Get(identity.ParseKey(strings.TrimSpace(string(key))))(t)
	flags := []string{"--ids", "text", "--identity-key-file", file}
	return &textWorld{Dev: h, users: identity.Named(parsed), flags: flags, kafka: append([]string{"--kafka-brokers", h.Broker}, flags...),
		sqlite: filepath.Join(h.Dir, "stillhere.db"), graph: filepath.Join(h.Dir, "graph.db")}
}

// tool runs a tool and returns its exit code and what it wrote.
func (w *textWorld) tool(arguments ...string) (code int, out, errs string) {
	w.Helper()
	p := testkit.Start(w.T, testkit.Binary(w.T, "stillhere"), nil, arguments...)
	code = p.Wait(time.Minute)
	out, errs = p.Out.String(), p.Err.String()
	for _, id := range w.ids {
		if strings.Contains(out+errs, id) {
			w.Errorf("%q prints the internal id %s:\n%s%s", arguments, id, out, errs)
		}
	}
	return code, out, errs
}

// says runs a tool, which must succeed and write each of want.
func (w *textWorld) says(arguments []string, want ...string) string {
	w.Helper()
	code, out, errs := w.tool(arguments...)
	if code != 0 {
		w.Errorf("%q: exit code %d\n%s%s", arguments, code, out, errs)
	}
	for _, text := range want {
		if !strings.Contains(out+errs, text) {
			w.Errorf("%q does not say %s:\n%s%s", arguments, text, out, errs)
		}
	}
	return out
}

// fails runs a tool, which must fail and say want.
func (w *textWorld) fails(arguments []string, want string) {
	w.Helper()
	if code, out, errs := w.tool(arguments...); code == 0 || !strings.Contains(errs, want) {
		w.Errorf("%q: exit code %d, want %s:\n%s%s", arguments, code, want, out, errs)
	}
}

// beat sends a beat by the command of that name. More are further flags.
func (w *textWorld) beat(name schemas.Name, more ...string) {
	w.Helper()
	arguments := []string{"beat", "--url", "http://" + w.Listen, name.Text, "--device", "phone", "--kind", "mobile"}
	if name.Tenant != "" {
		arguments = append(arguments, "--tenant", name.Tenant)
	}
	w.says(append(arguments, more...), name.Text)
}

// with joins words and flags.
func with(words []string, flags ...[]string) []string {
	for _, f := range flags {
		words = append(words[:len(words):len(words)], f...)
	}
	return words
}

func TestEveryToolNamesUsersByNameAndTenant(t *testing.T) {
	t.Parallel()
	w := newTextWorld(t)
	ann, late := "ann, née \"O'Neil\"", schemas.Name{Tenant: "acme", Text: "late"}
	var all []schemas.Name
	for _, tenant := range []string{"", "acme", "zeta"} {
		all = append(all, schemas.Name{Tenant: tenant, Text: ann}, schemas.Name{Tenant: tenant, Text: "42"})
	}
	for _, name := range append(all, late) {
		w.ids = append(w.ids, w.users.ID(name.Tenant, name.Text).String())
	}
	for _, name := range all {
		w.beat(name)
	}
	w.beat(schemas.Name{Tenant: "zeta", Text: ann}, "--bye")
	w.beatUnnamed(late)

	replay := with([]string{"replay"}, w.kafka)
	testkit.Until(t, "eight changes are published", 30*time.Second, func() bool {
		_, out, _ := w.tool(replay...)
		return strings.Count(out, "\n") >= 8
	})
	if out := w.says(replay, `"tenant":null,"name":null`, `"tenant":"","name":"42"`); strings.Contains(out, "user_id") {
		t.Errorf("a replay has user_id: %s", out)
	}
	// The name comes after the change.
	w.beat(late)
	testkit.Until(t, "the name is known", 30*time.Second, func() bool {
		_, out, _ := w.tool(replay...)
		return strings.Contains(out, `"tenant":"acme","name":"late"`)
	})
	quoted := `"ann, née \"O'Neil\""`
	acme := []string{"--tenant", "acme"}
	if out := w.says(with(replay, acme), quoted); strings.Count(out, "\n") != 4 || strings.Count(out, `"tenant":"acme"`) != 4 {
		t.Errorf("the replay of a tenant is %s", out)
	}
	one := w.says(with(replay, []string{ann, "--tenant", "zeta"}), quoted)
	if strings.Count(one, "\n") != 2 || strings.Count(one, `"tenant":"zeta"`) != 2 {
		t.Errorf("the replay of a user is %s", one)
	}
	w.says(with(replay, []string{"--source", "store", "--sqlite", w.sqlite}), `"tenant":"zeta","name":`+quoted)
	w.files(replay)

	w.says(with([]string{"asof", "now"}, w.kafka, acme), quoted, `"state":"online"`)
	w.says(with([]string{"asof", "now"}, w.kafka, []string{ann, "--tenant", "zeta"}), `"state":"offline"`)
	if out := w.says(with([]string{"sessions", ann, "--from=-1h", "--output", "csv"}, w.kafka), "tenant,name,device_kind"); strings.Contains(out, "acme") {
		t.Errorf("the sessions of the default tenant are %s", out)
	}
	event := one[strings.Index(one, `"event_id":"`)+12:][:27]
	w.says(with([]string{"explain", event}, w.kafka), `user "ann, née \"O'Neil\"" of tenant zeta`, "first_beat")
	w.says(with([]string{"explain", event, "--output", "json", ann, "--tenant", "zeta"}, w.kafka), `"tenant": "zeta"`)
	recording := filepath.Join(t.TempDir(), "heartbeats")
	w.says(with([]string{"record", "--out", recording}, w.kafka), "records in")
	w.says(with([]string{"backtest", "--policy", "log", "--recording", recording, "--warm-up", "0s"}, w.flags), "to online")
	w.says(with([]string{"backtest", "--policy", "log", "--policy", "default", "--tenant", "zeta", "--warm-up", "0s"}, w.kafka), "Only the 2 users of tenant zeta count")
	w.fails(with([]string{"backtest", "--policy", "log", "--tenant", "nobody"}, w.kafka), `--tenant: no user of tenant "nobody"`)
	w.fails([]string{"backtest", "--policy", "log", "--recording", recording}, "the users of the recording have names")

	graph := []string{"--sqlite", w.graph}
	w.says(with([]string{"graph", "edges", ann, "42", "--tenant", "acme"}, graph, w.flags), "1 added")
	w.says(with([]string{"graph", "followers", ann, "--tenant", "acme"}, graph, w.flags), "42")
	export := with([]string{"export", ann, "--sqlite", w.sqlite}, w.kafka)
	w.says(with(export, acme), `"type":"status","user_id":"ann, née \"O'Neil\"","tenant":"acme"`, `"type":"follower","user_id":"42","tenant":"acme"`)

	seen := filepath.Join(t.TempDir(), "seen.csv")
	must.Do(t, os.WriteFile(seen, []byte("gone,2026-11-01T00:00:00Z\n"), 0o600))
	w.says(with([]string{"import", "last-seen", seen, "--sqlite", w.sqlite}, w.flags, acme), "1 stored")
	w.says(with([]string{"export", "gone", "--no-status", "--sqlite", w.sqlite}, w.flags, acme), `"state":"offline"`)

	w.says(with([]string{"rebuild", "lastseen", "--sqlite", w.sqlite}, w.kafka), "names are in the store")
	w.modes(replay, one)
	w.follows(replay)
	w.erases(ann, quoted, replay)
	w.loads(replay)
}

// beatUnnamed writes a beat straight to Kafka, without the name that should come with it.
func (w *textWorld) beatUnnamed(name schemas.Name) {
	w.Helper()
	producer := kafkatest.Producer(w, kafka.Config{Brokers: []string{w.Broker}})
	id := w.users.ID(name.Tenant, name.Text)
	must.Do(w, producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(id, testkit.DevPartitions),
		Value: schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: id, Device: 1, Kind: schemas.Web}})}))
}

// files replays into files of each format, and resumes a folder of them.
func (w *textWorld) files(replay []string) {
	w.Helper()
	for _, format := range []string{"jsonl", "csv", "parquet"} {
		folder := []string{"--out", w.TempDir(), "--output", format, "--partition-by", "day"}
		w.says(with(replay, folder), "rows in")
		w.says(with(replay, folder, []string{"--resume"}), "going on after", "0 rows in")
		file := filepath.Join(w.TempDir(), "changes")
		to := []string{"--out", file, "--output", format}
		w.says(with(replay, to), "rows in")
		before := must.Get(os.ReadFile(file))(w)
		if text := string(before); format != "parquet" && (!strings.Contains(text, "acme") || strings.Contains(text, "user_id")) {
			w.Errorf("the file of %s is %s", format, text)
		}
	}
}

// modes gives tools another mode or key than the pipeline has. one are rows of a user.
func (w *textWorld) modes(replay []string, one string) {
	w.Helper()
	fingerprint := w.users.Pipeline().Fingerprint
	for _, words := range [][]string{{"replay"}, {"asof", "now"}, {"sessions", "--from=-1h"}, {"erase", "42"},
		{"record", "--out", filepath.Join(w.TempDir(), "none")}, {"backtest", "--policy", "log"},
		{"explain", one[strings.Index(one, `"event_id":"`)+12:][:27]}, {"export", "42", "--sqlite", w.sqlite}} {
		w.fails(with(words, []string{"--kafka-brokers", w.Broker}), "--ids text --identity-key-file FILE, where FILE has the identity key with fingerprint "+fingerprint)
	}
	other := filepath.Join(w.TempDir(), "other.key")
	must.Do(w, os.WriteFile(other, []byte(identity.Key{9}.Hex()), 0o600))
	w.fails([]string{"replay", "--kafka-brokers", w.Broker, "--ids", "text", "--identity-key-file", other}, "has the identity key with fingerprint "+fingerprint)
	w.fails(with(replay, []string{"--tenant", "a/b"}), "--tenant")
	w.fails([]string{"replay", "--kafka-brokers", w.Broker, "--tenant", "acme"}, "--tenant: only pipelines with --ids text have tenants")
	w.says([]string{"identity", "--kafka-brokers", w.Broker}, fingerprint)
}

// follows follows one tenant while users of all come.
func (w *textWorld) follows(replay []string) {
	w.Helper()
	following := testkit.Start(w.T, testkit.Binary(w.T, "stillhere"), nil, with(replay, []string{"--follow", "--tenant", "acme", "--output", "csv"})...)
	testkit.Until(w.T, "the replay has caught up", 30*time.Second, func() bool { return len(following.Out.Lines()) >= 4 })
	w.beat(schemas.Name{Tenant: "zeta", Text: "new"})
	w.beat(schemas.Name{Tenant: "acme", Text: "new"})
	testkit.Until(w.T, "a followed change", 30*time.Second, func() bool { return strings.Contains(following.Out.String(), ",acme,new,") })
	if text := following.Out.String(); strings.Contains(text, "zeta") {
		w.Errorf("who follows one tenant reads\n%s", text)
	}
	following.Kill()
}

// erases erases a user of one tenant.
func (w *textWorld) erases(name, quoted string, replay []string) {
	w.Helper()
	w.says(with([]string{"erase", name, "--tenant", "acme"}, w.kafka), `"user_id":`+quoted, `"tenant":"acme"`)
	testkit.Until(w.T, "the user is erased", 30*time.Second, func() bool {
		_, out, _ := w.tool(with(replay, []string{name, "--tenant", "acme"})...)
		return strings.Count(out, "\n") == 1 && strings.Contains(out, `"cause":"erased"`)
	})
	w.says(with(replay, []string{name}), quoted) // the default tenant's
	w.says(with(replay, []string{name, "--tenant", "zeta"}), quoted)
}

// loads plays users of the same names in two tenants.
func (w *textWorld) loads(replay []string) {
	w.Helper()
	load := testkit.Start(w.T, testkit.Binary(w.T, "stillhere"), nil, "load", "--url", "http://"+w.Listen, "--ids", "text",
		"--tenant", "acme", "--tenant", "zeta", "--users", "12", "--pace", "50")
	for _, tenant := range []string{"acme", "zeta"} {
		testkit.Until(w.T, "a user of "+tenant+" has come", 30*time.Second, func() bool {
			_, out, _ := w.tool(with(replay, []string{"--tenant", tenant})...)
			return strings.Contains(out, `"name":"user-`)
		})
	}
	load.Kill()
}
