package policy

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// withTTL is the default policy with another time to live.
func withTTL(d time.Duration) schemas.Policy {
	p := schemas.DefaultPolicy()
	p.OnlineTTL = d
	return p
}

func TestWhatWasInForceIsEachPolicyOfThePipelineWithTheSettingsThatTenantsHadThen(t *testing.T) {
	t.Parallel()
	first, second, own := withTTL(30*time.Second), withTTL(40*time.Second), withTTL(time.Minute)
	second.CohortRate = 7 // no tenant has its own
	checkpoints := map[int32]*schemas.Checkpoint{
		0: {Policy: schemas.PolicyInForce{Offset: 5, At: 1010, Policy: second}},
		1: {Policy: schemas.PolicyInForce{Policy: first}},
		2: {},
	}
	tenants := []SetPolicy{
		{schemas.TenantPolicy{Tenant: "acme", Policy: &own}, 500}, {schemas.TenantPolicy{Tenant: "acme"}, 2000},
		{schemas.TenantPolicy{Tenant: "zeta", Policy: &own}, 3000},
	}
	got := everInForce(checkpoints, tenants)
	want := map[string]schemas.Millis{first.ID(): 0, second.ID(): 1010, first.For(&own).ID(): 500, second.For(&own).ID(): 1010}
	for id, since := range want {
		if r, ok := got[id]; !ok || r.Since != since {
			t.Errorf("policy %s is known since %d (%v), want %d", id, r.Since, ok, since)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d policies, want %d", len(got), len(want))
	}
}

func TestAnInstantThatOnlyTheTopicOfPoliciesSaysIsUnverified(t *testing.T) {
	t.Parallel()
	_, producer, reader := pipeline(t)
	past, again, own := withTTL(time.Minute), withTTL(2*time.Minute), withTTL(3*time.Minute)
	for _, p := range []schemas.PolicyRecord{{Policy: past, Since: 5}, {Policy: again}, {Policy: own, Since: 9000}} {
		must.Do(t, producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Policies, Key: p.Key(), Value: p.Encode()}))
	}
	checkpoints := map[int32]*schemas.Checkpoint{
		0: {Policy: schemas.PolicyInForce{At: 4000, Policy: again}}, 1: {Policy: schemas.PolicyInForce{At: 3000, Policy: own}}}
	known := must.Get(ReadKnown(t.Context(), reader, checkpoints, nil))(t)
	want := []KnownPolicy{
		{schemas.PolicyRecord{Policy: again}, 4000, true},
		{schemas.PolicyRecord{Policy: past, Since: 5}, 0, true},
		{schemas.PolicyRecord{Policy: own, Since: 3000}, 3000, false},
	}
	if !slices.Equal(known.All, want) {
		t.Errorf("known are %+v\nwant %+v", known.All, want)
	}
}

func TestAPolicyThatTheTopicLacksIsAskedForOnce(t *testing.T) {
	t.Parallel()
	cfg, producer, _ := pipeline(t)
	kept := schemas.PolicyRecord{Policy: withTTL(time.Minute)}
	must.Do(t, producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Policies, Key: kept.Key(), Value: kept.Encode()}))
	k := must.Get(NewKeeper(t.Context(), cfg, slog.New(slog.DiscardHandler)))(t)
	if k.Lacks(kept.Policy.ID()) {
		t.Error("the topic has the policy, and is said to lack it")
	}
	for _, want := range []bool{true, false} {
		if got := k.Lacks("0123456789ab"); got != want {
			t.Errorf("lacks: %v, want %v", got, want)
		}
	}
	k.Restored() // whoever was to write it may have been stopped before
	if !k.Lacks("0123456789ab") {
		t.Error("after a restore nobody writes the policy")
	}
}

// standIn is a Kafka without topics.
func standIn(t *testing.T) kafka.Config {
	t.Helper()
	cluster := must.Get(embedded.StartKafka(embedded.KafkaConfig{}))(t)
	t.Cleanup(cluster.Close)
	return kafka.Config{Brokers: cluster.Addrs()}
}

// pipeline is a Kafka with the topics, and how to write and read there.
func pipeline(t *testing.T) (kafka.Config, *kafka.Producer, *kafka.Reader) {
	t.Helper()
	cfg := kafkatest.Start(t, identity.Users{}, 2)
	return cfg, kafkatest.Producer(t, cfg), kafkatest.Reader(t, cfg)
}

func TestAPolicyIsFoundByTheBeginningOfItsID(t *testing.T) {
	t.Parallel()
	var k Known
	for i := range 2000 { // so many that some begin alike
		k.All = append(k.All, KnownPolicy{PolicyRecord: schemas.PolicyRecord{Policy: withTTL(time.Minute + time.Duration(i)*time.Millisecond)}})
	}
	first := k.All[0].Policy.ID()
	if got, err := k.Find(first); err != nil || got != k.All[0] {
		t.Errorf("%+v, %v", got, err)
	}
	byStart := map[string]int{}
	for _, p := range k.All {
		byStart[p.Policy.ID()[:shortestID]]++
	}
	single := 0
	for start, n := range byStart {
		if n == 1 {
			if single++; single > 10 {
				continue
			}
		}
		if _, err := k.Find(start); (err == nil) != (n == 1) || n > 1 && !strings.Contains(err.Error(), "give more digits") {
			t.Errorf("%s, which begins %d ids: %v", start, n, err)
		}
	}
	for text, says := range map[string]string{"": "12 hexadecimal digits", "abc": "first 4", first + "0": "is none", "Online": "is none"} {
		if _, err := k.Find(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := (Known{}).Find(first); err == nil || !strings.Contains(err.Error(), "policy show all") {
		t.Error(err)
	}
}

func TestPoliciesAreKnownWhenNoCheckpointHasThemAnyMore(t *testing.T) {
	t.Parallel()
	cfg := standIn(t)
	reader := kafkatest.Reader(t, cfg)
	newest := map[int32]*schemas.Checkpoint{0: {Policy: schemas.PolicyInForce{At: 2000, Policy: withTTL(2 * time.Minute)}}}
	if _, err := ReadKnown(t.Context(), reader, newest, nil); !kafka.IsMissingTopic(err) || !strings.Contains(err.Error(), "topics apply") {
		t.Errorf("without the topic: %v", err)
	}

	must.Get(admin.ApplyTopics(t.Context(), cfg, 2, 1))(t)
	producer := kafkatest.Producer(t, cfg)
	older := schemas.PolicyRecord{Policy: withTTL(time.Minute)}
	must.Do(t, producer.AppendSync(t.Context(), schemas.Outgoing{Topic: schemas.Policies, Key: older.Key(), Value: older.Encode()}))
	known, err := ReadKnown(t.Context(), reader, newest, nil)
	if err != nil || !slices.Equal(known.Policies(), []schemas.Policy{withTTL(time.Minute), withTTL(2 * time.Minute)}) {
		t.Errorf("%+v, %v", known, err)
	}
}
