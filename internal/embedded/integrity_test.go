package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const lines = 12

// filled is a data directory with a few records, a transaction and commits of a group;
// killed says that it is as a kill leaves it.
func filled(t *testing.T, killed bool) string {
	t.Helper()
	dir := t.TempDir()
	k, err := StartKafka(KafkaConfig{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
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
	c.Close()
	if !killed {
		k.Close()
		return dir
	}
	into := t.TempDir()
	if err := os.CopyFS(into, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	k.Close()
	return into
}

// files are those of a data directory that hold data.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "stillhere.lock" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
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

// flip inverts one bit of each byte of a file in turn, of every second or third in one of
// thousands, and tells at which it was not found in that file.
func flip(t *testing.T, dir, file string) (missed []int) {
	t.Helper()
	text := read(t, file)
	for at := 0; at < len(text); at += 1 + len(text)/1500 {
		text[at] ^= 1 << (at % 8)
		write(t, file, text)
		faults, err := findFaults(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(faults, func(f fault) bool {
			return strings.TrimSuffix(f.file, filepath.Ext(f.file)) == strings.TrimSuffix(file, filepath.Ext(file))
		}) {
			missed = append(missed, at)
		}
		text[at] ^= 1 << (at % 8)
		write(t, file, text)
	}
	return missed
}

func TestAFlippedBitAnywhereInADataDirectoryIsFound(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"after an orderly stop": false, "after a kill": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t, killed)
			if faults, err := findFaults(dir); err != nil || len(faults) > 0 {
				t.Fatalf("of a whole directory: %+v %v", faults, err)
			}
			kinds := map[string]bool{}
			for _, file := range files(t, dir) {
				kind := filepath.Ext(file)
				if killed && kind == ".json" {
					continue // in a copy; what was written in place is another test's
				}
				kinds[kind] = true
				if missed := flip(t, dir, file); len(missed) > 0 {
					t.Errorf("%s: not found at bytes %v", filepath.Base(file), missed)
				}
			}
			if want := map[bool]int{false: 5, true: 4}[killed]; len(kinds) != want {
				t.Errorf("%d kinds of files were tried: %v", len(kinds), kinds)
			}
			if faults, err := findFaults(dir); err != nil || len(faults) > 0 {
				t.Errorf("of the same directory with all bits as they were: %+v %v", faults, err)
			}
		})
	}
}

func TestStateThatWasChangedInPlaceIsFoundAfterAKillAndStateThatWasReplacedIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := start(t, KafkaConfig{DataDir: dir})
	topic(t, k.Addrs(), "log", nil)
	file := filepath.Join(dir, "topics.json")
	deadline := time.Now().Add(20 * time.Second)
	for { // until the checksums are taken, which is once a second
		s, _, err := readSums(dir)
		if err == nil && s != nil && bytes.Contains(s.Files["topics.json"].Text, []byte(`"log"`)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no checksums are taken")
		}
	}
	text := bytes.Replace(read(t, file), []byte(`"log"`), []byte(`"lof"`), 1)
	write(t, file, text)
	if faults, err := findFaults(dir); err != nil || len(faults) != 1 || faults[0].file != file {
		t.Errorf("changed in place: %+v %v", faults, err)
	}
	write(t, file+".tmp", text)
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
	if faults, err := findFaults(dir); err != nil || len(faults) != 0 {
		t.Errorf("replaced, as the cluster does: %+v %v", faults, err)
	}
}

func TestWhatAKillCutsOffIsNoDamageAndTheRestIsThere(t *testing.T) {
	t.Parallel()
	dir := filled(t, true)
	data, index := filepath.Join(dir, "partitions", "log-0", "0.dat"), filepath.Join(dir, "partitions", "log-0", "0.idx")
	text, entries := read(t, data), read(t, index)
	s, err := scan(data, 0, true)
	if err != nil || len(s.batches) != 2*lines {
		t.Fatalf("%d record batches, want a line and a marker each: %v", len(s.batches), err)
	}
	last := len(s.batches[len(s.batches)-1].raw)
	for cut := 1; cut < last; cut++ {
		write(t, data, text[:len(text)-cut])
		write(t, index, entries[:len(entries)-indexEntry])
		if faults, err := findFaults(dir); err != nil || len(faults) > 0 {
			t.Fatalf("cut off by %d bytes: %+v %v", cut, faults, err)
		}
	}
	for _, name := range []string{"groups.log", "pids.log"} {
		file := filepath.Join(dir, name)
		log := read(t, file)
		write(t, file, append(slices.Clone(log), log[:len(log)/2]...)[:len(log)+7])
		if faults, err := findFaults(dir); err != nil || len(faults) > 0 {
			t.Fatalf("%s with half an entry more: %+v %v", name, faults, err)
		}
		if got := read(t, file); !bytes.Equal(got, log) {
			t.Errorf("%s: %d bytes are left, want the %d that are whole", name, len(got), len(log))
		}
	}
	// The index lacks the entry of a whole batch.
	write(t, data, text)
	write(t, index, entries[:len(entries)-indexEntry-3])
	k := start(t, KafkaConfig{DataDir: dir})
	if s, err := scan(data, 0, true); err != nil || s.indexFault != "" || len(s.index) != len(s.batches)*indexEntry || s.index[len(entries)-1] != entries[len(entries)-1] {
		t.Errorf("the index was not completed: %d bytes for %d record batches, %s %v", len(s.index), len(s.batches), s.indexFault, err)
	}
	if n := len(consume(t, k.Addrs(), "log", lines)); n != lines {
		t.Errorf("%d lines, want %d", n, lines)
	}
}

func TestAPartitionThatRetentionHasEmptiedBeforeAKillIsNoDamage(t *testing.T) {
	t.Parallel()
	dir := filled(t, false)
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
		into := t.TempDir() // a kill
		if err := os.CopyFS(into, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		dir = into
	}
}

func TestADamagedLogIsRefusedAndWithConsentWhatIsWholeIsKept(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		change func(text []byte) []byte
		lost   int // of the lines
	}{
		"a bit of a record":     {func(text []byte) []byte { text[bytes.Index(text, []byte("line 5"))] ^= 4; return text }, 1},
		"a bit of the length":   {func(text []byte) []byte { text[bytes.Index(text, []byte("line 5"))-59] ^= 64; return text }, 1},
		"the first":             {func(text []byte) []byte { text[bytes.Index(text, []byte("line 0"))] ^= 4; return text }, 1},
		"the second half":       {func(text []byte) []byte { return text[:bytes.Index(text, []byte("line 6"))] }, lines - 6},
		"everything from there": {func(text []byte) []byte { clear(text[bytes.Index(text, []byte("line 6")):]); return text }, lines - 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t, false)
			file := filepath.Join(dir, "partitions", "log-0", "0.dat")
			write(t, file, damage.change(read(t, file)))
			for range 2 { // refusing changes nothing
				_, err := StartKafka(KafkaConfig{DataDir: dir})
				if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "--accept-data-loss") || strings.Contains(err.Error(), "\n") {
					t.Fatalf("the start says %v, want one line with the file", err)
				}
			}
			var log bytes.Buffer
			k, err := StartKafka(KafkaConfig{DataDir: dir, AcceptDataLoss: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), file) {
				t.Errorf("the log does not tell what is lost: %s", log.String())
			}
			produced := client(t, k.Addrs()).ProduceSync(t.Context(), &kgo.Record{Topic: "log", Value: []byte("later")})
			if err := produced.FirstErr(); err != nil {
				t.Fatal(err)
			}
			if at := produced[0].Record.Offset; at < 2*lines {
				t.Errorf("offset %d is given out again", at)
			}
			k.Close()
			k = start(t, KafkaConfig{DataDir: dir})
			got := consume(t, k.Addrs(), "log", lines-damage.lost+1)
			if n := len(got); n != lines-damage.lost+1 || string(got[n-1].Value) != "later" {
				t.Errorf("%d records, the last %q, want %d and what was written later", n, got[n-1].Value, lines-damage.lost+1)
			}
		})
	}
}
