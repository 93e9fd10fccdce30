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
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: fmt.Appendf(nil, "line %d", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		if err := kadm.NewClient(c).CommitAllOffsets(t.Context(), "readers", kadm.OffsetsFromRecords(kgo.Record{Topic: "log", Offset: int64(i)})); err != nil {
			t.Fatal(err)
		}
	}
	return copied(t, dir)
}

// copied is dir as a kill would leave it now.
func copied(t *testing.T, dir string) string {
	t.Helper()
	into := t.TempDir()
	if err := os.CopyFS(into, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return into
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
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
		if err := mendTails(dir); err != nil {
			t.Fatal(err)
		}
		if got := read(t, index); len(got) != len(entries) || got[len(got)-1] != entries[len(entries)-1] {
			t.Fatalf("cut off by %d bytes, the index has %d bytes, want %d", cut, len(got), len(entries))
		}
	}
	for cut := 1; cut < 70; cut++ { // the last batch is written in part, with and without its entry
		write(t, segment, text[:len(text)-cut])
		write(t, index, entries[:len(entries)-cut%2*indexEntry])
		if err := mendTails(dir); err != nil {
			t.Fatal(err)
		}
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
		if err := mendTails(dir); err != nil {
			t.Fatal(err)
		}
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
		if err := os.Remove(filepath.Join(dir, "partitions", "log-0", "0"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		k := start(t, KafkaConfig{DataDir: dir})
		if err := client(t, k.Addrs()).ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: []byte("new")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		dir = copied(t, dir)
	}
}
