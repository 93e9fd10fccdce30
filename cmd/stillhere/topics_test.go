package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTopicsAreAppliedToAnEmptyClusterAndAgain(t *testing.T) {
	cluster := must.Get(embedded.StartKafka(embedded.KafkaConfig{Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(cluster.Close)
	brokers := "--kafka-brokers=" + cluster.Addrs()[0]
	for range 2 {
		if code, _, errs := stillhere(t, "", "topics", "apply", "--partitions", "2", brokers); code != 0 {
			t.Errorf("apply: exit %d, %s", code, errs)
		}
	}
	if code, _, errs := stillhere(t, "", "topics", "apply", brokers); code != 0 {
		t.Errorf("apply without a number of partitions: exit %d, %s", code, errs)
	}
	if code, _, errs := stillhere(t, "", "topics", "apply", "--dry-run", brokers); code != 0 {
		t.Errorf("dry run: exit %d, %s", code, errs)
	}
}

func TestAnotherNumberOfPartitionsIsRefusedWithWhatIsAndWhatToDo(t *testing.T) {
	cluster := must.Get(embedded.StartKafka(embedded.KafkaConfig{Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(cluster.Close)
	brokers := "--kafka-brokers=" + cluster.Addrs()[0]
	if code, _, errs := stillhere(t, "", "topics", "apply", "--partitions", "4", brokers); code != 0 {
		t.Fatalf("apply: exit %d, %s", code, errs)
	}
	if code, _, errs := stillhere(t, "", "topics", "apply", "--dry-run", "--partitions", "8", brokers); code != 1 || !strings.Contains(errs, "asks for 8") {
		t.Errorf("dry run of 8 partitions on 4: exit %d, %s", code, errs)
	}
	code, _, errs := stillhere(t, "", "topics", "apply", "--partitions", "8", "--retention", "transitions=48h", brokers)
	if code != 1 {
		t.Errorf("apply of 8 partitions on 4: exit %d", code)
	}
	for _, part := range []string{"presence.heartbeats has 4 partitions", "asks for 8", "nothing was changed",
		"which one a user's records are in", "leave --partitions out", "docs/how-to/operate.md"} {
		if !strings.Contains(errs, part) {
			t.Errorf("the error does not say %q: %s", part, errs)
		}
	}
	longer := kafka.Config{Brokers: cluster.Addrs(), Retention: schemas.Retention{Transitions: 48 * time.Hour}}
	reports := must.Get(admin.ApplyTopics(t.Context(), longer, 4, 1))(t)
	if !slices.ContainsFunc(reports, func(r admin.TopicReport) bool { return len(r.Changed) > 0 }) {
		t.Error("the refused command has changed the retention")
	}
}
