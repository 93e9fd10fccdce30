package replay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// clocked is the clock of a rotation.
type clocked struct{ now time.Time }

func (c *clocked) read() time.Time { return c.now }

// filesIn are the files of a folder, by their names in it, in order.
func filesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, relErr := filepath.Rel(folder, path)
			must.Do(t, relErr)
			names = append(names, name)
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// keysIn are the changes of complete files, in the order of the files.
func keysIn(t *testing.T, format Format, folder string) (keys []key) {
	t.Helper()
	names := filesIn(t, folder)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, name := range names {
		if !strings.HasSuffix(name, partial) {
			found := must.Get(readKeys(format, IDs, filepath.Join(folder, name)))(t)
			keys = append(keys, found...)
		}
	}
	return keys
}

// spaced are changes of which each is so much later than the one before.
func spaced(length int, by time.Duration) []store.Entry {
	all := entries(1, 5, length)
	start := schemas.MillisOf(time.Date(2026, 11, 22, 23, 0, 0, 0, time.UTC))
	for i := range all {
		all[i].At = start + schemas.Millis(int64(i)*by.Milliseconds())
		all[i].Version = schemas.NewVersion(1, int64(i), 0)
		all[i].SetEvent([]byte(all[i].EventID().String()))
	}
	return all
}

func TestFilesAreCompleteAfterTheirTimeAlsoWhileNothingComes(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{JSONL, CSV, Parquet} {
		folder, clock := filepath.Join(t.TempDir(), "out"), &clocked{time.Unix(1, 0)}
		w, have, from, err := Rotate(IDs, format, Rotation{Folder: folder, Every: 10 * time.Minute, Now: clock.read}, false, time.Minute)
		must.Do(t, err)
		if len(have) > 0 || from != 0 {
			t.Fatalf("an empty folder has %d changes from %s", len(have), from)
		}
		rows := spaced(5, time.Second)
		end := "." + string(format)
		for i := range rows[:3] {
			must.Do(t, w.Write(&rows[i]))
		}
		clock.now = clock.now.Add(10*time.Minute - 1)
		must.Do(t, w.Flush())
		if got := filesIn(t, folder); !slices.Equal(got, []string{"changes-000001" + end + partial}) {
			t.Errorf("before the time: %v", got)
		}
		clock.now = clock.now.Add(1)
		must.Do(t, w.Flush())
		if got := filesIn(t, folder); !slices.Equal(got, []string{"changes-000001" + end}) || len(keysIn(t, format, folder)) != 3 {
			t.Errorf("after the time: %v", got)
		}
		for i := range rows[3:] {
			must.Do(t, w.Write(&rows[3+i]))
		}
		must.Do(t, w.Close())
		if got := filesIn(t, folder); !slices.Equal(got, []string{"changes-000001" + end, "changes-000002" + end}) {
			t.Errorf("at the end: %v", got)
		}
		for i, key := range keysIn(t, format, folder) {
			if key.Event != rows[i].Event {
				t.Errorf("row %d is another one", i)
			}
		}
		if _, _, _, err := Rotate(IDs, format, Rotation{Folder: folder}, false, 0); err == nil || !strings.Contains(err.Error(), "changes-000001") {
			t.Errorf("a folder with files is written to without resume: %v", err)
		}
	}
}

func TestFilesAreCompleteAtTheirSize(t *testing.T) {
	t.Parallel()
	for format, rows := range map[Format]int{JSONL: 10_000, Parquet: 3 * checkRows} {
		folder, size := t.TempDir(), int64(1<<20)
		if format == Parquet {
			size = 1000 // rows that are alike need few bytes
		}
		w, _, _, err := Rotate(IDs, format, Rotation{Folder: folder, Bytes: size}, false, 0)
		must.Do(t, err)
		one := spaced(1, 0)[0]
		for i := range rows {
			one.Version = schemas.NewVersion(1, int64(i), 0)
			must.Do(t, w.Write(&one))
		}
		must.Do(t, w.Close())
		if names := filesIn(t, folder); len(names) < 2 || len(names) > 6 || len(keysIn(t, format, folder)) != rows {
			t.Errorf("%s: %d rows are in %v", format, len(keysIn(t, format, folder)), names)
		}
	}
}

func TestDaysHaveFoldersAndLateRowsAreInTheirs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w, _, _, err := Rotate(IDs, Parquet, Rotation{Folder: folder, ByDay: true}, false, 0)
	must.Do(t, err)
	rows := spaced(50, time.Hour) // from 23:00 on: three days
	order := []int{0, 1, 2}
	for i := 3; i < len(rows); i++ {
		order = append(order, i)
	}
	order[1], order[0] = order[0], order[1] // late across midnight
	for _, i := range order {
		must.Do(t, w.Write(&rows[i]))
	}
	must.Do(t, w.Write(&rows[0])) // of a day that is complete
	must.Do(t, w.Close())
	want := []string{
		"day=2026-11-22/changes-000002.parquet", "day=2026-11-22/changes-000005.parquet", "day=2026-11-23/changes-000001.parquet",
		"day=2026-11-24/changes-000003.parquet", "day=2026-11-25/changes-000004.parquet",
	}
	if got := filesIn(t, folder); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAResumedRotationHasEveryRowOnce(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{JSONL, CSV, Parquet} {
		for _, killed := range []bool{false, true} {
			folder, clock := t.TempDir(), &clocked{time.Unix(1, 0)}
			how := Rotation{Folder: folder, Every: time.Minute, ByDay: true, Now: clock.read}
			rows := spaced(200, time.Minute)
			w, _, _, err := Rotate(IDs, format, how, false, 30*time.Minute)
			must.Do(t, err)
			for i := range rows[:100] {
				must.Do(t, w.Write(&rows[i]))
				clock.now = clock.now.Add(7 * time.Second)
			}
			if killed {
				must.Do(t, w.Abandon())
			} else {
				must.Do(t, w.Close())
			}
			w, have, from, err := Rotate(IDs, format, how, true, 30*time.Minute)
			must.Do(t, err)
			if from == 0 || len(have) == 0 || len(have) > 31 {
				t.Errorf("%s: %d changes from %s on are there", format, len(have), from)
			}
			for i := range rows {
				if rows[i].At >= from && !have[rows[i].Event] {
					must.Do(t, w.Write(&rows[i]))
				}
			}
			must.Do(t, w.Close())
			seen := map[store.EventText]int{}
			for _, key := range keysIn(t, format, folder) {
				seen[key.Event]++
			}
			for i := range rows {
				if n := seen[rows[i].Event]; n != 1 {
					t.Errorf("%s, killed %v: row %d is there %d times", format, killed, i, n)
				}
			}
		}
	}
}
