package embedded

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// written is what a test writes to a compacted topic: users in transactions, one in three of which is aborted.
func written(t *testing.T, addrs []string, round int, want map[string]string) {
	t.Helper()
	c := client(t, addrs, kgo.TransactionalID("one"))
	for i := range 30 {
		must.Do(t, c.BeginTransaction())
		r := &kgo.Record{Topic: "log", Key: fmt.Append(nil, "user ", i%7), Value: fmt.Append(nil, "round ", round, " ", i),
			Headers: []kgo.RecordHeader{{Key: "i", Value: fmt.Append(nil, i)}}}
		if i%10 == 9 {
			r.Value = nil
		}
		must.Do(t, c.ProduceSync(t.Context(), r).FirstErr())
		commit := i%3 != 0
		must.Do(t, c.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
		if commit {
			want[string(r.Key)] = string(r.Value)
		}
	}
	c.Close()
}

// end is the end of the log.
func end(t *testing.T, addrs []string) int64 {
	t.Helper()
	ends := must.Get(kadm.NewClient(client(t, addrs)).ListEndOffsets(t.Context(), "log"))(t)
	o, _ := ends.Lookup("log", 0)
	return o.Offset
}

func size(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	info := must.Get(os.Stat(filepath.Join(dir, "partitions", "log-0", "0.dat")))(t)
	return info.Size()
}

func TestStartsCompactWhatWasWrittenSinceAndKeepTheNewestOfEachKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := map[string]string{}
	var first int64
	for round := range 6 {
		k := must.Get(StartKafka(KafkaConfig{DataDir: dir}))(t)
		if round == 0 {
			topic(t, k.Addrs(), "log", map[string]string{"cleanup.policy": "compact"})
		} else {
			got := map[string]string{}
			kept := consume(t, k.Addrs(), "log", len(want))
			for _, r := range kept {
				got[string(r.Key)] = string(r.Value)
				if len(r.Headers) != 1 || time.Since(r.Timestamp) > time.Minute {
					t.Errorf("round %d: record %d is of %s, with %d headers", round, r.Offset, r.Timestamp, len(r.Headers))
				}
			}
			if !maps.Equal(got, want) {
				t.Fatalf("round %d: %v, want %v", round, got, want)
			}
		}
		before := end(t, k.Addrs())
		written(t, k.Addrs(), round, want)
		after := end(t, k.Addrs())
		if after-before != 60 { // records and markers
			t.Errorf("round %d: the log grew from %d to %d", round, before, after)
		}
		if round%2 == 0 {
			k.Close()
		} else {
			dir = copied(t, dir) // a kill
			t.Cleanup(k.Close)
		}
		must.Do(t, compactDir(dir, time.Now()))
		if round == 0 {
			first = size(t, dir)
		} else if now := size(t, dir); now > first+first/4 {
			t.Errorf("round %d: the log has %d bytes, after the first round it had %d", round, now, first)
		}
		k = start(t, KafkaConfig{DataDir: copied(t, dir)})
		if now := end(t, k.Addrs()); now < after {
			t.Errorf("round %d: the log ends at %d, did at %d", round, now, after)
		}
	}
}

func TestOldTombstonesAreRemovedAndLateReadersGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := must.Get(StartKafka(KafkaConfig{DataDir: dir}))(t)
	topic(t, k.Addrs(), "log", map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "60000"})
	c := client(t, k.Addrs())
	for _, r := range []*kgo.Record{{Key: []byte("gone"), Value: []byte("anna@example.com")}, {Key: []byte("here"), Value: []byte("is")}, {Key: []byte("gone")}} {
		r.Topic = "log"
		must.Do(t, c.ProduceSync(t.Context(), r).FirstErr())
	}
	k.Close()
	must.Do(t, compactDir(dir, time.Now().Add(2*time.Minute)))
	k = start(t, KafkaConfig{DataDir: dir})
	if got := consume(t, k.Addrs(), "log", 1); len(got) != 1 || string(got[0].Key) != "here" || got[0].Offset != 1 {
		t.Errorf("%d records, the first is %+v", len(got), got[0])
	}
	produced := client(t, k.Addrs()).ProduceSync(t.Context(), &kgo.Record{Topic: "log", Key: []byte("new")})
	if err := produced.FirstErr(); err != nil || produced[0].Record.Offset != 3 {
		t.Errorf("the next record has the offset %d (%v), want 3", produced[0].Record.Offset, err)
	}
}
