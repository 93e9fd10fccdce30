package virtual

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/erasure"
)

// removeTopic removes a topic from Kafka.
func (w *world) removeTopic(topic schemas.Topic) {
	w.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka.Addrs()...), kgo.Dialer(w.kafka.Dialer()))
	if err != nil {
		w.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(w.Context(), topic.Name(schemas.DefaultPrefix)); err != nil {
		w.Fatal(err)
	}
}

// timesNamed is how many heartbeats in the log have the name of a user.
func (w *world) timesNamed(name schemas.Name) (n int) {
	w.Helper()
	w.tap.catchUp()
	for _, records := range w.tap.records {
		for _, r := range records {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				w.Fatal(err)
			}
			names := f.Names()
			for row := (schemas.NamedRow{}); names.Next(&row); {
				if row.User() == name {
					n++
				}
			}
		}
	}
	return n
}

// A pipeline of an earlier build does not have the topic of erasures. Here it is removed once more while the
// processes run.
func TestAPipelineWithoutTheTopicOfErasuresWorksAndFollowsItWhenItIsThere(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		said := &logged{Handler: w.log.Handler()}
		w.log = slog.New(said)
		w.removeTopic(schemas.Erasures)
		p := w.start("all", "one")
		gateway := w.dial("gw-1")
		defer func() { _ = gateway.Close(context.WithoutCancel(w.Context())) }()
		ann, bob := schemas.Name{Tenant: "acme", Text: "ann"}, schemas.Name{Tenant: "acme", Text: "bob"}
		k, err := gateway.ConnectAs(bob, "tab", schemas.Web, 0)
		if err != nil {
			w.Fatal(err)
		}
		n := named{w, p.base, p.base, "acme"}
		n.posts("ann", http.StatusAccepted, `{"accepted":1}`)

		erase := func(when string, spread bool) {
			w.Helper()
			began := time.Now()
			status, receipt := w.ask(http.MethodDelete, p.base+"/presence/users/bob?tenant=acme", nil)
			if took := time.Since(began); status != http.StatusOK || took > 2*time.Second || strings.Contains(string(receipt), "presence.erasures") != spread {
				w.Errorf("%s an erasure is answered %d %s after %s", when, status, receipt, took)
			}
			writer, err := erasure.OpenWriter(w.Context(), clusterOf(w.config), w.log)
			if err != nil {
				w.Fatal(err)
			}
			defer writer.Close(w.Context())
			began = time.Now()
			for range 20 {
				for _, name := range []schemas.Name{ann, bob} {
					user := schemas.UserName{User: clusterOf(w.config).Users.ID(name.Tenant, name.Text), Name: name}
					if _, err := writer.Erase(w.Context(), user); err != nil {
						w.Errorf("%s a command cannot erase: %v", when, err)
					}
				}
			}
			took, unspread := time.Since(began), writer.Unspread()
			if (unspread == nil) != spread || unspread != nil && !strings.Contains(unspread.Error(), "stillhere topics apply") || took > 3*time.Second {
				w.Errorf("%s 40 erasures of a command take %s, %v", when, took, unspread)
			}
		}
		// Both have been named when this begins, at most a minute ago.
		beats := func(when string, want int) {
			w.Helper()
			time.Sleep(15 * time.Second)
			before := [2]int{w.timesNamed(ann), w.timesNamed(bob)}
			n.posts("ann", http.StatusAccepted, `{"accepted":1}`)
			if err := k.Beat(0); err != nil {
				w.Error(err)
			}
			time.Sleep(2 * time.Second)
			if got := [2]int{w.timesNamed(ann) - before[0], w.timesNamed(bob) - before[1]}; got != [2]int{want, want} {
				w.Errorf("%s ann and bob are named %v times, want %d", when, got, want)
			}
		}
		warned, again := 0, 0
		misses := func(when string) {
			w.Helper()
			time.Sleep(20 * time.Second)
			warned += 2 // ingest and the gateway
			if got := said.count("the topic of erasures does not exist", "stillhere topics apply"); got != warned {
				w.Errorf("%s %d warnings say that the topic is missing, want %d", when, got, warned)
			}
		}
		follows := func(when string) {
			w.Helper()
			if _, err := admin.ApplyTopics(w.Context(), clusterOf(w.config), 2, 1); err != nil {
				w.Fatal(err)
			}
			again += 2
			w.until("they follow the topic "+when, 15*time.Second, func() bool { return said.count("can be read again") == again })
		}
		for _, when := range []string{"at first", "after the topic was removed"} {
			misses(when)
			beats(when, 0)
			erase(when, false)
			follows(when)
			beats(when+", then created,", 0)
			erase(when+", then created,", true)
			beats(when+", then created, after an erasure", 1)
			w.removeTopic(schemas.Erasures)
		}
	})
}
