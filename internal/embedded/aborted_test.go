package embedded

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestATransactionThatAKillLeftOpenIsNotVisibleAndConcealsNothingAfterIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := start(t, KafkaConfig{DataDir: dir})
	topic(t, k.Addrs(), "log", nil)
	transaction := func(k *Kafka, value string, end func(*kgo.Client) error) {
		t.Helper()
		c := client(t, k.Addrs(), kgo.TransactionalID("one"))
		defer c.Close()
		must.Do(t, c.BeginTransaction())
		must.Do(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: []byte(value)}).FirstErr())
		must.Do(t, end(c))
	}
	commit := func(c *kgo.Client) error { return c.EndTransaction(context.Background(), kgo.TryCommit) }
	// killed takes up a copy of the data as it is on disk now.
	killed := func() *Kafka {
		t.Helper()
		dir = copied(t, dir)
		return start(t, KafkaConfig{DataDir: dir})
	}
	transaction(k, "first", commit)
	transaction(k, "left open", func(*kgo.Client) error { k = killed(); return nil })
	transaction(k, "second", commit)
	for _, when := range []string{"after a kill", "after another kill"} {
		transaction(k, when, commit)
		var got []string
		for _, r := range consume(t, k.Addrs(), "log", 3) {
			got = append(got, string(r.Value))
		}
		if want := []string{"first", "second", "after a kill"}; !slices.Equal(got[:3], want) {
			t.Errorf("%s the log shows %q, must begin with %q", when, got, want)
		}
		k = killed()
	}
	if _, err := os.Stat(filepath.Join(dir, "meta.json")); err != nil {
		t.Errorf("the copies were no data directories: %v", err)
	}
}
