package embedded

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

const lines = 12

// killed is a data directory, as a kill leaves it, with a few records in transactions and commits of a group.
func killed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	k := start(t, KafkaConfig{DataDir: dir})
	topic(t, k.Addrs(), "log", nil)
	c := client(t, k.Addrs(), kgo.TransactionalID("one"))
	for i := range lines {
		must.Do(t, c.BeginTransaction())
		must.Do(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: fmt.Appendf(nil, "line %d", i)}).FirstErr())
		must.Do(t, c.EndTransaction(t.Context(), kgo.TryCommit))
		must.Do(t, kadm.NewClient(c).CommitAllOffsets(t.Context(), "readers", kadm.OffsetsFromRecords(kgo.Record{Topic: "log", Offset: int64(i)})))
	}
	return copied(t, dir)
}

// copied is dir as a kill would leave it now.
func copied(t *testing.T, dir string) string {
	t.Helper()
	into := t.TempDir()
	must.Do(t, os.CopyFS(into, os.DirFS(dir)))
	return into
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(file, text, 0o644))
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(file))(t)
}

func TestWhatAKillCutsOffIsRemovedAndTheRestIsThere(t *testing.T) {
	t.Parallel()
	dir := killed(t)
	segment, index := filepath.Join(dir, "partitions", "log-0", "0.dat"), filepath.Join(dir, "partitions", "log-0", "0.idx")
	text, entries := read(t, segment), read(t, index)
	if n := len(entries) / indexEntry; n != 2*lines {
		t.Fatalf("%d record batches, want a line and a marker each", n)
	}
	for cut := 1; cut < 3*indexEntry; cut++ { // entries that were not written, the last of them in part
		write(t, index, entries[:len(entries)-cut])
		must.Do(t, mendTails(dir))
		if got := read(t, index); len(got) != len(entries) || got[len(got)-1] != entries[len(entries)-1] {
			t.Fatalf("cut off by %d bytes, the index has %d bytes, want %d", cut, len(got), len(entries))
		}
	}
	for cut := 1; cut < 70; cut++ { // the last batch is written in part, with and without its entry
		write(t, segment, text[:len(text)-cut])
		write(t, index, entries[:len(entries)-cut%2*indexEntry])
		must.Do(t, mendTails(dir))
		if left, want := len(read(t, index)), len(entries)-indexEntry; left != want {
			t.Fatalf("the batch cut off by %d bytes, the index has %d bytes, want %d", cut, left, want)
		}
	}
	write(t, segment, text)
	write(t, index, entries[:len(entries)-indexEntry-3])
	for _, name := range []string{"groups.log", "pids.log"} {
		file := filepath.Join(dir, name)
		log := read(t, file)
		write(t, file, append(slices.Clone(log), log[:7]...))
		must.Do(t, mendTails(dir))
		if got := read(t, file); !bytes.Equal(got, log) {
			t.Errorf("%s: %d bytes are left, want the %d that are whole", name, len(got), len(log))
		}
	}
	k := start(t, KafkaConfig{DataDir: dir})
	if n := len(consume(t, k.Addrs(), "log", lines)); n != lines {
		t.Errorf("%d lines, want %d", n, lines)
	}
}

func TestAPartitionThatRetentionHasEmptiedBeforeAKillGoesOn(t *testing.T) {
	t.Parallel()
	dir := killed(t)
	for _, suffix := range []string{".dat", ".idx"} { // as retention does it while the cluster runs
		must.Do(t, os.Remove(filepath.Join(dir, "partitions", "log-0", "0"+suffix)))
	}
	for range 3 {
		k := start(t, KafkaConfig{DataDir: dir})
		must.Do(t, client(t, k.Addrs()).ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: []byte("new")}).FirstErr())
		dir = copied(t, dir)
	}
}
