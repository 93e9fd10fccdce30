package main

import (
	"log/slog"
	"testing"

	"github.com/stillhere/stillhere/internal/embedded"
)

func TestTopicsAreAppliedToAnEmptyClusterAndAgain(t *testing.T) {
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := "--kafka-brokers=" + cluster.Addrs()[0]
	for range 2 {
		if code, _, errs := stillhere(t, "", "topics", "apply", "--partitions", "2", brokers); code != 0 {
			t.Errorf("apply: exit %d, %s", code, errs)
		}
	}
	if code, _, errs := stillhere(t, "", "topics", "check", brokers); code != 0 {
		t.Errorf("check: exit %d, %s", code, errs)
	}
}
