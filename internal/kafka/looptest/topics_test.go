//go:build synctests

package looptest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTopicsAreMadeOnceAndFoundAgain(t *testing.T) {
	onEach(t, 3, func(w *world) {
		n, err := admin.CheckTopics(w.Context(), w.cfg)
		if err != nil || n != 3 {
			w.Fatalf("%d partitions, %v", n, err)
		}
		reports := must.Get(admin.ApplyTopics(w.Context(), w.cfg, 7, 1))(w)
		for _, r := range reports {
			want := int32(3)
			if r.Name == w.name(schemas.Policies) || r.Name == w.name(schemas.Gateways) {
				want = 1
			}
			if r.Created || r.Partitions != want || len(r.Tuned) > 0 {
				w.Errorf("the second time: %+v", r)
			}
		}
	})
}

func TestTopicsAreMadeAlthoughABrokerHearsOfThemLate(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		cfg := w.cfg
		cfg.Prefix = "late."
		asked := 0
		w.answers(kmsg.DescribeConfigs, func(request kmsg.Request) kmsg.Response {
			if asked++; asked > 3 {
				return nil
			}
			response := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
			for _, of := range request.(*kmsg.DescribeConfigsRequest).Resources {
				resource := kmsg.NewDescribeConfigsResponseResource()
				resource.ErrorCode, resource.ResourceType, resource.ResourceName = kerr.UnknownTopicOrPartition.Code, of.ResourceType, of.ResourceName
				response.Resources = append(response.Resources, resource)
			}
			return response
		})
		if reports, err := admin.ApplyTopics(w.Context(), cfg, 3, 1); err != nil || !reports[0].Created || asked < 4 {
			w.Errorf("%+v, %v, after %d questions", reports, err, asked)
		}
	})
}

func TestRecordsOfLaterTimesAreTakenByTopicsThatTheirWritersStamp(t *testing.T) {
	onEach(t, 1, func(w *world) {
		for _, topic := range []schemas.Topic{schemas.Transitions, schemas.Statuses, schemas.SeenHints, schemas.Fanout, schemas.Deliveries, schemas.DeadLetter} {
			record := schemas.Outgoing{Topic: topic, Key: schemas.UserID(1).Key(), Time: schemas.MillisOf(time.Now().Add(72 * time.Hour))}
			if err := w.producer.AppendSync(w.Context(), record); err != nil {
				w.Errorf("%s: %v", topic, err)
			}
		}
	})
}

func TestTopicsAreMadeByBrokersThatDoNotKnowASettingYet(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		cfg := w.cfg
		cfg.Prefix = "old."
		w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.InvalidConfig, Count: -1, When: func(r kmsg.Request) bool {
			return slices.ContainsFunc(r.(*kmsg.CreateTopicsRequest).Topics, func(t kmsg.CreateTopicsRequestTopic) bool {
				return slices.ContainsFunc(t.Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool { return c.Name == schemas.LatestTime })
			})
		}})
		reports := must.Get(admin.ApplyTopics(w.Context(), cfg, 3, 1))(w)
		for _, r := range reports {
			if !r.Created || len(r.Tuned) > 0 {
				w.Errorf("%+v", r)
			}
		}
	})
}

func TestAPipelineKeepsHowItsUsersAreNamed(t *testing.T) {
	onEach(t, 3, func(w *world) {
		first, other := identity.Named(identity.Key{1}), identity.Named(identity.Key{2})
		as := func(prefix string, users identity.Users) kafka.Config {
			cfg := w.cfg
			cfg.Prefix, cfg.Users = prefix, users
			return cfg
		}
		refused := func(cfg kafka.Config, words ...string) {
			w.Helper()
			_, applied := admin.ApplyTopics(w.Context(), cfg, 3, 1)
			_, checked := admin.CheckTopics(w.Context(), cfg)
			for _, err := range []error{applied, checked} {
				for _, word := range words {
					if err == nil || !strings.Contains(err.Error(), word) {
						w.Errorf("%v, want %q", err, word)
					}
				}
			}
		}
		refused(as(w.cfg.Prefix, first), "was begun with --ids int", "runs with --ids text", "stillhere identity")

		text := w.cfg.Prefix + "text."
		w.Cleanup(func() { _ = admin.DeleteTopics(context.Background(), as(text, first)) })
		for range 2 {
			must.Get(admin.ApplyTopics(w.Context(), as(text, first), 3, 1))(w)
		}
		if n, err := admin.CheckTopics(w.Context(), as(text, first)); err != nil || n != 3 {
			w.Errorf("%d partitions, %v", n, err)
		}
		stored, err := admin.Identity(w.Context(), as(text, identity.Users{}))
		if err != nil || stored != first.Pipeline() {
			w.Errorf("stored %v, %v", stored, err)
		}
		refused(as(text, other), "was begun with --ids text", first.Pipeline().Fingerprint, other.Pipeline().Fingerprint)
		refused(as(text, identity.Users{}), "was begun with --ids text", "runs with --ids int")
	})
}

func TestAWrongTopicIsRefusedWithWhatRepairsIt(t *testing.T) {
	onEach(t, 3, func(w *world) {
		cfg := w.cfg
		cfg.Prefix = "other."
		_, err := admin.CheckTopics(w.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "other.heartbeats does not exist") || !strings.Contains(err.Error(), "topics apply") {
			w.Errorf("missing topics: %v", err)
		}
		remake := func(topic schemas.Topic, partitions int32, config map[string]string) {
			w.deleteTopic(topic)
			w.createTopic(topic, partitions, config)
		}
		remake(schemas.Transitions, 4, map[string]string{"cleanup.policy": "delete"})
		remake(schemas.Heartbeats, 3, map[string]string{"cleanup.policy": "delete"})
		remake(schemas.Statuses, 3, map[string]string{"cleanup.policy": "delete"})
		_, err = admin.CheckTopics(w.Context(), w.cfg)
		if err == nil {
			w.Fatal("it was accepted")
		}
		for _, says := range []string{
			"transitions has 4 partitions and must have 3",
			"heartbeats has message.timestamp.type=CreateTime and must have LogAppendTime; set it with: kafka-configs.sh",
			"status has cleanup.policy=delete and must have compact",
		} {
			if !strings.Contains(err.Error(), says) {
				w.Errorf("%q does not say %q", err, says)
			}
		}
		if lines := strings.Count(err.Error(), "\n") + 1; lines != 3 {
			w.Errorf("%d lines for 3 faults", lines)
		}
	})
}

// Receipts of erasures name the day on which the last copy is gone.
func TestTopicsThatAreMissingHaveNoCopies(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		text := w.cfg
		text.Prefix, text.Users = "text.", identity.Named(identity.Key{1})
		must.Get(admin.ApplyTopics(w.Context(), text, 3, 1))(w)
		all, err := admin.LastCopies(w.Context(), text)
		if err != nil || all.Stay["text.erasures"] < time.Hour || all.Stay["text.deliveries"] < 24*time.Hour || all.Stay["text.pipeline"] != 0 || all.Note == "" {
			w.Fatalf("%v, %v", all, err)
		}
		client := w.admin()
		defer client.Close()
		for _, topic := range []string{"text.erasures", "text.deliveries"} {
			must.Get(client.DeleteTopic(w.Context(), topic))(w)
		}
		left, err := admin.LastCopies(w.Context(), text)
		if _, found := left.Stay["text.erasures"]; err != nil || found || len(left.Stay) != len(all.Stay)-2 {
			w.Errorf("without two topics: %v, %v", left, err)
		}
	})
}

func TestAProducerGivesUpInTimeAndRefusesWhatIsTooMuch(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		cfg := w.cfg
		cfg.MaxBuffered = 10
		cfg.DeliveryTimeout = 5 * time.Second
		p := kafkatest.Producer(w, cfg)
		out := schemas.Outgoing{Topic: schemas.Heartbeats, Value: []byte("frame")}
		must.Do(w, p.AppendSync(w.Context(), out))
		fault := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "presence.heartbeats", Err: kerr.NotEnoughReplicas, Count: -1})
		begun := time.Now()
		results := make(chan error, 20)
		for range 15 {
			p.Append(w.Context(), out, func(err error) { results <- err })
		}
		busy, late := 0, 0
		for range 15 {
			switch err := <-results; {
			case errors.Is(err, kafka.ErrBusy):
				busy++
			case err != nil:
				late++
			}
		}
		if busy != 5 || late != 10 {
			w.Errorf("%d were refused, %d given up", busy, late)
		}
		if took := time.Since(begun); took > 8*time.Second {
			w.Errorf("giving up took %s", took)
		}
		fault.Remove()
		if err := p.AppendSync(w.Context(), out); err != nil {
			w.Errorf("afterwards: %v", err)
		}
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if err := p.AppendSync(ctx, out); !errors.Is(err, context.Canceled) {
			w.Errorf("with an ended context: %v", err)
		}
	})
}

// kfake's cleaner takes away the markers of aborted transactions, and clients
// then drop what the same producer committed later; see internal/embedded/DESIGN.md.
func TestWhatIsCommittedAfterAnAbortSurvivesTheCleaner(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		transaction := w.transactional("one")
		must.Do(w, w.producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Statuses, Key: []byte("z"), Value: []byte("v")}))
		transaction(schemas.Statuses, "a", kgo.TryAbort)
		transaction(schemas.Statuses, "b", kgo.TryAbort)
		time.Sleep(time.Hour)
		transaction(schemas.Statuses, "a", kgo.TryCommit)
		transaction(schemas.Statuses, "b", kgo.TryCommit)
		var keys string
		for _, r := range w.read(schemas.Statuses) {
			keys += string(r.Key)
		}
		if keys != "zab" {
			w.Errorf("what was committed reads %q", keys)
		}
	})
}

func TestAReaderReadsRangesToTheirEndAlthoughTheLastRecordsWereAborted(t *testing.T) {
	onEach(t, 1, func(w *world) {
		r := kafkatest.Reader(w, w.cfg)
		for i := range 20 {
			w.put(0, string(rune('a'+i)))
		}
		w.transactional("aborts")(schemas.Transitions, "!", kgo.TryAbort)
		read := func(from, to int64, committed bool) (keys string) {
			err := r.Read(w.Context(), schemas.Transitions, 0, from, to, committed, func(rec *schemas.Record) error {
				keys += string(rec.Key)
				return nil
			})
			must.Do(w, err)
			return keys
		}
		for _, c := range []struct {
			from, to  int64
			committed bool
			want      string
		}{
			{-1, -1, true, "abcdefghijklmnopqrst"}, {-1, -1, false, "abcdefghijklmnopqrst!"}, {5, 8, true, "fgh"}, {18, 1000, true, "st"},
			{20, 20, true, ""}, {500, 600, true, ""}, {20, -1, true, ""}, {0, 1, true, "a"},
			{stream.Last(3), -1, true, "t"}, {stream.Last(1), -1, true, ""}, {stream.Last(1000), -1, false, "abcdefghijklmnopqrst!"},
		} {
			if got := read(c.from, c.to, c.committed); got != c.want {
				w.Errorf("from %d to %d (committed %v): %q, want %q", c.from, c.to, c.committed, got, c.want)
			}
		}
		stop := errors.New("enough")
		n := 0
		if err := r.Read(w.Context(), schemas.Transitions, 0, -1, -1, true, func(*schemas.Record) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
			w.Errorf("%d records, %v", n, err)
		}
	})
}

func TestApplyingTopicsChangesTheRetentionThatIsGivenAndNothingElse(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		apply := func(r schemas.Retention) (changed, tuned []string) {
			cfg := w.cfg
			cfg.Retention = r
			reports := must.Get(admin.ApplyTopics(w.Context(), cfg, 1, 1))(w)
			for _, r := range reports {
				changed, tuned = append(changed, r.Changed...), append(tuned, r.Tuned...)
			}
			return changed, tuned
		}
		asked := schemas.Retention{Heartbeats: time.Hour, Deliveries: 10 * time.Hour, Seen: 20 * time.Minute, Graph: 1000 * time.Hour}
		want := []string{"retention.ms=3600000 (was: 900000)", "segment.ms=720000 (was: 180000)",
			"retention.ms=1200000 (was: 600000)", "segment.ms=240000 (was: 120000)",
			"retention.ms=36000000 (was: 86400000)", "segment.ms=7200000 (was: 17280000)",
			"delete.retention.ms=3600000000 (was: 2592000000)"}
		if changed, _ := apply(asked); !slices.Equal(changed, want) {
			w.Errorf("changed %q, want %q", changed, want)
		}
		if changed, _ := apply(asked); len(changed) > 0 {
			w.Errorf("the second time: changed %q", changed)
		}
		if changed, tuned := apply(schemas.Retention{}); len(changed) > 0 || len(tuned) != 7 {
			w.Errorf("without a retention: changed %q, reported %q", changed, tuned)
		}
		check := func(says ...string) {
			w.Helper()
			err := admin.CheckRetention(w.Context(), w.cfg)
			for _, text := range says {
				if err == nil || !strings.Contains(err.Error(), text) {
					w.Errorf("the check of the retention says %v, not %q", err, text)
				}
			}
			if err != nil && len(says) == 0 {
				w.Error(err)
			}
		}
		check()
		changed, _ := apply(schemas.Retention{Heartbeats: 2 * time.Hour})
		if want := []string{"retention.ms=7200000 (was: 3600000)", "segment.ms=1440000 (was: 720000)"}; !slices.Equal(changed, append(want, want...)) {
			w.Errorf("with longer heartbeats: changed %q, want those of snapshots too: %q", changed, want)
		}
		check()
		set := func(topic schemas.Topic, retention string) {
			w.Helper()
			admin := w.admin()
			defer admin.Close()
			must.Get(admin.AlterTopicConfigs(w.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, w.name(topic)))(w)
		}
		set(schemas.Snapshots, "3600000")
		check("snapshots has retention.ms=3600000 (1h0m0s)", "--retention heartbeats=2h0m0s")
		set(schemas.Heartbeats, "599999")
		check("heartbeats has retention.ms=599999", "--retention heartbeats=10m0s")
		set(schemas.Heartbeats, "600000")
		check()
	})
}
