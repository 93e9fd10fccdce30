//go:build unix

package process_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/test/testkit"
)

// separate are roles in processes of their own, each with the rights in Kafka that it is given.
type separate struct {
	*testing.T
	super    kafka.Config
	kafka    *kadm.Client
	settings []string
}

func newSeparate(t *testing.T) *separate {
	t.Helper()
	testkit.Binary(t, "stillhere")
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{Log: slog.New(slog.DiscardHandler),
		Options: []kfake.Opt{kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-256", "super", "super")}})
	must.Do(t, err)
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.SASL(scram.Auth{User: "super", Pass: "super"}.AsSha256Mechanism()))
	must.Do(t, err)
	w := &separate{T: t, kafka: kadm.NewClient(client), super: kafka.Config{Brokers: cluster.Addrs(),
		Security: &kafka.Security{Mechanism: "SCRAM-SHA-256", User: "super", Password: "super"}}}
	t.Cleanup(w.kafka.Close)
	_, err = admin.ApplyTopics(t.Context(), w.super, testkit.DevPartitions, 1)
	must.Do(t, err)
	redis := must.Get(embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(redis.Close)
	_, url := testkit.Postgres(t)
	limits := pgstore.Defaults()
	limits.URL = url
	must.Do(t, app.Migrate(t.Context(), limits))
	w.settings = []string{"STILLHERE_KAFKA_BROKERS=" + strings.Join(cluster.Addrs(), ","), "STILLHERE_KAFKA_SASL=SCRAM-SHA-256",
		"STILLHERE_REDIS=" + redis.Addr(), "STILLHERE_POSTGRES=" + url}
	return w
}

// begin starts a role under a name, with the rights of grantees.
func (w *separate) begin(role, name string, grantees ...string) *testkit.Dev {
	w.Helper()
	altered, err := w.kafka.AlterUserSCRAMs(w.Context(), nil, []kadm.UpsertSCRAM{{User: name, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: name}})
	must.Do(w.T, err)
	must.Do(w.T, altered.Error())
	for _, grantee := range grantees {
		needs := must.Get(app.Grants(grantee, app.Use{}, ""))(w.T)
		var grants []admin.Grant
		for _, need := range needs {
			grants = append(grants, admin.Grant(need))
		}
		must.Do(w.T, admin.ApplyGrants(w.Context(), w.super, "User:"+name, grants))
	}
	h := testkit.NewRole(w.T)
	h.Run(testkit.Binary(w.T, "stillhere"), role, name, func(c *exec.Cmd) {
		c.Env = append(append(c.Env, w.settings...), "STILLHERE_KAFKA_USER="+name, "STILLHERE_KAFKA_PASSWORD="+name)
	})
	return h
}

func TestTheConsoleOfAnAPIProcessWorksBesideOtherProcessesAndSaysWhichRightsItLacks(t *testing.T) {
	t.Parallel()
	w := newSeparate(t)
	all := map[string]*testkit.Dev{}
	for _, role := range []string{"ingest", "detector", "lastseen", "fanout"} {
		all[role] = w.begin(role, role, role)
	}
	all["rich"], all["poor"] = w.begin("api", "rich", "api", "tools"), w.begin("api", "poor", "api")
	for name, h := range all {
		testkit.Until(t, name+" is ready", time.Minute, func() bool { return strings.Contains(h.Err.String(), `"msg":"ready"`) })
	}
	rich, poor := all["rich"], all["poor"]
	started := time.Now().UnixMilli()
	beat := func(user int) {
		body := fmt.Sprintf(`{"gateway_id":"gw-1","gateway_epoch":%d,"beats":[{"user_id":"%d","device_id":7,"device_kind":"mobile"}]}`, started, user)
		if status, answer, err := all["ingest"].Ask(http.MethodPost, "/presence/heartbeats", "application/json", strings.NewReader(body)); err != nil || status != http.StatusAccepted {
			t.Fatalf("a beat is answered %d %s %v", status, answer, err)
		}
	}
	const api = "/console/api/"
	change := ""
	events(t, rich, api+"feed", func(event, data string) bool {
		if event == "open" {
			beat(42)
		}
		change = data
		return event == "change"
	})
	if !strings.Contains(change, `"user_id":"42"`) || !strings.Contains(change, `"first_beat"`) {
		t.Errorf("the feed shows %s", change)
	}

	var o consoleOverview
	testkit.Until(t, "the overview knows the user, the gateway and every process", 30*time.Second, func() bool {
		o = consoleOverview{}
		beat(42)
		must.Do(t, rich.Fetch(api+"overview", &o))
		return o.Counts.Online == 1 && len(o.Gateways) == 1 && len(o.Instances) == len(all) && o.Partitions[0].Owner == "detector"
	})
	for _, h := range []*testkit.Dev{rich, poor} { // api needs presence.status itself
		var users struct {
			Users []struct{ State string }
			Total int
		}
		testkit.Until(t, "the user is listed", 30*time.Second, func() bool {
			must.Do(t, h.Fetch(api+"users", &users))
			return users.Total == 1 && users.Users[0].State == "online"
		})
	}
	var of struct {
		EventID string `json:"event_id"`
	}
	must.Do(t, json.Unmarshal([]byte(change), &of))
	explain := api + "explain?event_id=" + of.EventID
	var why struct{ Text string }
	must.Do(t, rich.Fetch(explain, &why))
	if !strings.Contains(why.Text, "first_beat") {
		t.Errorf("the explanation is %s", why.Text)
	}
	trial := `{"policy":{"offline-debounce":"60s"},"minutes":1}`
	if status, answer, err := rich.Ask(http.MethodPost, api+"whatif", "application/json", strings.NewReader(trial)); err != nil || status != http.StatusOK ||
		!publishedOnce.Match(answer) {
		t.Errorf("another policy is answered %d %s %v", status, answer, err)
	}

	const lacks = "its user needs the rights of stillhere topics acls --role tools as well"
	var some consoleOverview
	must.Do(t, poor.Fetch(api+"overview", &some))
	if some.Counts.Online != 1 || some.Gateways != nil || some.Partitions[0].Owner != "detector" {
		t.Errorf("without the rights of tools the overview is %+v", some)
	}
	if status, answer, err := poor.Ask(http.MethodGet, explain, "", nil); err != nil || status != http.StatusServiceUnavailable ||
		!strings.Contains(string(answer), `"kafka_not_allowed"`) || !strings.Contains(string(answer), lacks) {
		t.Errorf("without the rights of tools an explanation is answered %d %s %v", status, answer, err)
	}
	events(t, poor, api+"feed", func(event, data string) bool {
		if event != "error" || !strings.Contains(data, "503") || !strings.Contains(data, lacks) {
			t.Errorf("without the rights of tools the feed sends %s %s", event, data)
		}
		return true
	})
	if status, answer, err := poor.Ask(http.MethodPost, api+"whatif", "application/json", strings.NewReader(trial)); err != nil || !strings.Contains(string(answer), lacks) {
		t.Errorf("without the rights of tools another policy is answered %d %s %v", status, answer, err)
	}
	if said := poor.Err.String(); strings.Contains(said, "the consumer failed") {
		t.Errorf("a consumer tries to read what it may not:\n%s", said)
	}
}
