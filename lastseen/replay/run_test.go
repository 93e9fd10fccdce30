package replay

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// shuffled is entries of which neighbours change places and some share a causing
// record, as where one record lets many users go.
func shuffled(seed uint64, users, length int) []store.Entry {
	all := entries(seed, users, length)
	for i := range all {
		e := &all[i]
		e.Version = schemas.NewVersion(1, int64(i/4), i%4)
		if i%5 == 0 && e.At > 3000 {
			e.At -= 2500 // found late
		}
		e.SetEvent([]byte(e.EventID().String()))
	}
	return all
}

func TestTheSameChangesGiveTheSameBytesWhereverTheyAreRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		changes := shuffled(rapid.Uint64Range(1, 1000).Draw(rt, "seed"), 20, rapid.IntRange(0, 400).Draw(rt, "length"))
		format := rapid.SampledFrom([]Format{JSONL, JSONL, JSONL, CSV, CSV, Parquet}).Draw(rt, "format")
		want := written(t, format, changes)
		log := newTopic(rapid.Int32Range(1, 6).Draw(rt, "partitions"), changes)
		kept := archiveOf(log, rapid.Float64Range(0.7, 1).Draw(rt, "written"))
		log.cut(rapid.Float64Range(0, 0.7).Draw(rt, "cut"))
		got, sum := replayed(t, format, log, kept, Defaults())
		same(t, "replay", got, want)
		if sum.Rows != int64(len(changes)) || sum.Late != 0 {
			t.Fatalf("summary %+v of %d changes", sum, len(changes))
		}
	})
}

func TestARangeIsExactToTheMillisecondOnBothSidesOfTheSeam(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		changes := shuffled(rapid.Uint64Range(1, 1000).Draw(rt, "seed"), 9, 200)
		log := newTopic(3, changes)
		kept := archiveOf(log, 0.9)
		log.cut(0.5)
		o := Defaults()
		o.Filter.From = changes[rapid.IntRange(0, 199).Draw(rt, "from")].At
		o.Filter.To = o.Filter.From + schemas.Millis(rapid.IntRange(1, 1000).Draw(rt, "length"))
		if rapid.Bool().Draw(rt, "one user") {
			o.Filter.Users = []schemas.UserID{5}
		}
		if rapid.Bool().Draw(rt, "one state") {
			o.Filter.States = []schemas.State{schemas.Online}
		}
		wanted := slices.DeleteFunc(slices.Clone(changes), func(e store.Entry) bool {
			return e.At < o.Filter.From || e.At >= o.Filter.To || len(o.Filter.Users) > 0 && e.User != 5 ||
				len(o.Filter.States) > 0 && e.To != schemas.Online
		})
		got, _ := replayed(t, JSONL, log, kept, o)
		same(t, "range", got, written(t, JSONL, wanted))
	})
}

func TestAGapBetweenStoreAndTopicIsAnErrorAndNotAFile(t *testing.T) {
	t.Parallel()
	log := newTopic(2, shuffled(1, 9, 200))
	kept := archiveOf(log, 0.3)
	log.cut(0.5)
	o := Defaults()
	_, err := Run(t.Context(), log, kept, &o, func(*store.Entry) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "there is a gap") {
		t.Errorf("error %v", err)
	}
	o.Source = FromTopic
	if _, sum := replayed(t, JSONL, log, kept, o); sum.Rows == 0 {
		t.Error("the topic alone gives nothing")
	}
}

func TestWithoutAStoreTheSummaryReportsThatTheTopicDoesNotReachBack(t *testing.T) {
	t.Parallel()
	log := newTopic(2, shuffled(1, 9, 200))
	for _, cut := range []bool{false, true} {
		if cut {
			log.cut(0.5)
		}
		o := Defaults()
		if sum, err := Run(t.Context(), log, nil, &o, func(*store.Entry) error { return nil }); err != nil || sum.Cut != cut {
			t.Errorf("cut %v, want %v; %v", sum.Cut, cut, err)
		}
	}
}

func TestOffsetsAreThoseOfTheTopic(t *testing.T) {
	t.Parallel()
	changes := shuffled(1, 1, 50)
	log := newTopic(1, changes)
	o := Defaults()
	o.Filter.Partitions = []int32{0}
	o.Offsets = &Offsets{From: log.records[0][10].Offset, To: log.records[0][20].Offset}
	got, _ := replayed(t, CSV, log, nil, o)
	same(t, "offsets", got, written(t, CSV, changes[10:20]))
	log.cut(0.5)
	if _, err := Run(t.Context(), log, nil, &o, nil); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("error %v", err)
	}
	o.Filter.Partitions = []int32{7}
	if _, err := Run(t.Context(), log, nil, &o, nil); err == nil || !strings.Contains(err.Error(), "partition: 7 does not exist") {
		t.Errorf("error %v", err)
	}
}

func TestWhatFollowsComesAfterWhatWasReplayedOnce(t *testing.T) {
	t.Parallel()
	changes := shuffled(3, 20, 300)
	log, half := newTopic(2, changes), newTopic(2, changes[:150])
	o := Defaults()
	seen := map[rowID]int{}
	count := func(e *store.Entry) error { seen[rowID{e.User, e.Version}]++; return nil }
	sum := must.Get(Run(t.Context(), half, nil, &o, count))(t)
	ctx, cancel := context.WithCancel(t.Context())
	must.Do(t, Follow(ctx, log, &o, sum, count, func() error {
		if len(seen) == len(changes) {
			cancel()
		}
		return nil
	}))
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%+v came %d times", id, n)
		}
	}
}

func TestLinesAreWhatStandardReadersUnderstand(t *testing.T) {
	t.Parallel()
	changes := entries(5, 9, 40)
	changes[3].Policy = "a \"quoted\",\npolicy\u2028"
	changes[3].LeftOut = 7
	changes[3].Override = schemas.Override{State: schemas.DoNotDisturb, Until: 1763700000123, Note: "=\"lunch\",\n"}
	changes[4].Override = schemas.Override{}
	changes[4].Kinds, changes[4].Device, changes[4].LastSeen, changes[4].LastActive = 0, 0, 0, 0
	for line := range bytes.Lines(written(t, JSONL, changes)) {
		var row struct {
			schemas.Presence
			LeftOut  *uint32        `json:"left_out"`
			At       schemas.Millis `json:"changed_at"`
			Policy   string         `json:"policy_id"`
			Device   *int           `json:"device_id"`
			Devices  []string       `json:"device_kinds"`
			Override json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &row))
		if row.UserID == 0 || row.Version == "0" || row.At == 0 || row.Policy == "" || row.LeftOut == nil ||
			*row.LeftOut == 7 && string(row.Override) != changes[3].Override.Text() {
			t.Errorf("read as %+v", row)
		}
	}
	rows := must.Get(csv.NewReader(bytes.NewReader(written(t, CSV, changes))).ReadAll())(t)
	if len(rows) != len(changes)+1 || rows[4][13] != changes[3].Policy || rows[4][14] != "7" || rows[5][7]+rows[5][8] != "" ||
		rows[4][15] != changes[3].Override.Text() || rows[5][15] != "" || rows[5][10] != "" {
		t.Errorf("%d rows of CSV, %v, %v", len(rows), rows[4], rows[5])
	}
}

func TestWritingLinesAllocatesNothing(t *testing.T) {
	rows := entries(5, 9, 40)
	rows[7].Override = schemas.Override{}
	for _, format := range []Format{JSONL, CSV} {
		w := Changes(format, discard{})
		if n := testing.AllocsPerRun(1000, func() { _ = w.Write(&rows[7]) }); n != 0 {
			t.Errorf("%s: %v allocations a row", format, n)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestAFileThatCannotBeWrittenIsNotCommitted(t *testing.T) {
	t.Parallel()
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("there is no " + full)
	}
	name := filepath.Join(t.TempDir(), "changes.jsonl")
	must.Do(t, os.Symlink(full, name+partial))
	file := must.Get(Create(name))(t)
	for range 100 {
		_, _ = file.Write(make([]byte, 1000)) // may return the error
	}
	if err := file.Commit(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("committed: %v", err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the file has taken its name")
	}
}

func TestOnlyFilesAreReplaced(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	socket, link, file := filepath.Join(folder, "s"), filepath.Join(folder, "link"), filepath.Join(folder, "file")
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "unix", socket))(t)
	defer listener.Close() //nolint:errcheck // of a test
	for _, name := range []string{socket, folder} {
		if _, err := Create(name); err == nil || !strings.Contains(err.Error(), "must be a file") {
			t.Errorf("Create(%s): %v", name, err)
		}
	}
	must.Do(t, errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink(file, link)))
	out := must.Get(Create(link))(t)
	must.Get(out.Write([]byte("new")))(t)
	must.Do(t, out.Commit())
	text, err := os.ReadFile(file)
	if target, linked := os.Readlink(link); err != nil || linked != nil || target != file || string(text) != "new" {
		t.Errorf("the file has %q, %v; the link leads to %q, %v", text, err, target, linked)
	}
}

func TestInterruptedStatesAndSessionsEndAtARowThoughAllIsRead(t *testing.T) {
	t.Parallel()
	log := newTopic(2, entries(1, 10, 100))
	all := slices.Concat(log.records[0], log.records[1])
	o, rows := Defaults(), 0
	ctx, cancel := context.WithCancel(t.Context())
	third := func() error {
		if rows++; rows == 3 {
			cancel()
		}
		return nil
	}
	_, err := AsOf(ctx, log, nil, all[len(all)-1].Time, &o, func(*store.Entry) error { return third() })
	if !errors.Is(err, context.Canceled) || rows != 3 {
		t.Errorf("%d states came: %v", rows, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	o, rows = Defaults(), 0
	o.Filter.From, o.Filter.To = all[0].Time, all[len(all)-1].Time+1
	_, err = Sessions(ctx, log, nil, &o, true, func(*Session) error { return third() })
	if !errors.Is(err, context.Canceled) || rows != 3 {
		t.Errorf("%d sessions came: %v", rows, err)
	}
}

func TestAnInterruptedReplayEndsAtARowThoughAllIsRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o, rows := Defaults(), 0
	sum, err := Run(ctx, newTopic(2, entries(1, 10, 100)), nil, &o, func(*store.Entry) error {
		if rows++; rows == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || rows != 3 || sum.Rows != 3 {
		t.Errorf("%d rows came, %d are counted: %v", rows, sum.Rows, err)
	}
}
