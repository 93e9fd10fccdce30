//go:build unix

package process

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

func TestAPipelineWithASchemaRegistryWritesItsHeadAndReadsItselfAlsoAfterASwitch(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	p := framedPipeline{T: t, dir: dir}
	p.run("", func(string) {
		p.arrive(1)
		p.is(1, "online") // its transition has been written
	})
	p.run(fake.URL(), func(cluster string) {
		p.is(1, "online") // restored from status records without a head
		p.arrive(2)
		p.is(2, "online")
		client, err := sr.NewClient(sr.URLs(fake.URL()))
		must.Do(t, err)
		for topic, user := range map[schemas.Topic]schemas.UserID{schemas.Transitions: 2, schemas.Statuses: 2} {
			value := p.last(cluster, topic, user)
			schema, err := client.SchemaByVersion(t.Context(), topic.Name(schemas.DefaultPrefix)+"-value", -1)
			must.Do(t, err)
			var head sr.ConfluentHeader
			id, rest, err := head.DecodeID(value)
			if err != nil || id != schema.ID {
				t.Errorf("%s: %x has id %d (%v), want %d", topic, value, id, err, schema.ID)
				continue
			}
			if path, _, err := head.DecodeIndex(rest, 3); err != nil || len(path) != 1 {
				t.Errorf("%s: the path in its file is %v (%v)", topic, path, err)
			}
			// A zero byte, the id, a 0 for the first message of the file; then the version of the message.
			want := fmt.Sprintf("00%08x000801", id)
			if topic == schemas.Transitions && !strings.HasPrefix(hex.EncodeToString(value), want) {
				t.Errorf("a transition is %x, want %s…", value, want)
			}
		}
		if value := p.last(cluster, schemas.Heartbeats, 2); value[0] == 0 {
			t.Errorf("a frame has a head: %x", value)
		}
		if value := p.last(cluster, schemas.Transitions, 1); value[0] == 0 {
			t.Errorf("what was written before has a head: %x", value)
		}
	})
	p.run("", func(string) {
		p.is(2, "online") // restored from status records with a head
		p.leave(2)
		p.is(2, "offline")
	})
}

// framedPipeline is dev, again and again on the same data.
type framedPipeline struct {
	*testing.T
	dir, url string
}

// run runs it while act does.
func (p *framedPipeline) run(registry string, act func(cluster string)) {
	p.Helper()
	address := testkit.FreePort(p.T)
	p.url = "http://" + address
	config := app.Defaults()
	config.Instance, config.Listen, config.Admin, config.SchemaRegistry = "framed", address, "", registry
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- app.RunDev(ctx, app.Dev{Config: config, DataDir: p.dir, KafkaListen: "127.0.0.1:0", Partitions: 1},
			slog.New(slog.DiscardHandler), func(at app.DevAddresses) { started <- at.Kafka })
	}()
	select {
	case cluster := <-started:
		act(cluster)
		cancel()
		must.Do(p, <-ended)
	case err := <-ended:
		p.Fatal("it did not start:", err)
	}
}

func (p *framedPipeline) arrive(user int) {
	p.Helper()
	p.post(fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7,"device_kind":"mobile"}]}`, user))
}

func (p *framedPipeline) leave(user int) {
	p.Helper()
	p.post(fmt.Sprintf(`{"beats":[{"user_id":"%d","device_id":7,"bye":true}]}`, user))
}

func (p *framedPipeline) post(body string) {
	p.Helper()
	response, err := http.Post(p.url+"/presence/heartbeats", "application/json", strings.NewReader(body))
	must.Do(p, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusAccepted {
		p.Fatal(response.Status)
	}
}

// is waits until the user is said to be in a state.
func (p *framedPipeline) is(user int, state string) {
	p.Helper()
	want, got := fmt.Sprintf(`{"%d":"%s"}`, user, state), ""
	for deadline := time.Now().Add(30 * time.Second); strings.TrimSpace(got) != want; {
		if time.Now().After(deadline) {
			p.Fatalf("user %d: %s, want %s", user, got, want)
		}
		response, err := http.Get(fmt.Sprintf("%s/presence/batch?user_ids=%d", p.url, user))
		must.Do(p, err)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		must.Do(p, err)
		got = string(body)
	}
}

// last is the last value of a user on a topic; of heartbeats, of anybody's beats.
func (p *framedPipeline) last(cluster string, topic schemas.Topic, user schemas.UserID) []byte {
	p.Helper()
	reader := kafkatest.Reader(p, kafka.Config{Brokers: []string{cluster}, Prefix: schemas.DefaultPrefix})
	var value []byte
	err := reader.Read(p.Context(), topic, 0, -1, -1, true, func(r *schemas.Record) error {
		if topic == schemas.Heartbeats || string(r.Key) == string(user.Key()) {
			value = append(value[:0], r.Value...)
		}
		return nil
	})
	if err != nil || len(value) == 0 {
		p.Fatalf("%s has %x of user %d (%v)", topic, value, user, err)
	}
	return value
}
