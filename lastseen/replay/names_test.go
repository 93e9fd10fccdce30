package replay

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// names are names in memory. What is coming becomes known by a refresh.
type names struct {
	mu            sync.Mutex
	known, coming map[schemas.UserID]schemas.UserName
	asked         int
}

func (n *names) Names(_ context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[schemas.UserID]schemas.UserName{}
	n.asked++
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return nil, fmt.Errorf("user %d is asked for twice", id)
		}
		if name, known := n.known[id]; known {
			found[id] = name
		}
	}
	return found, nil
}

func (n *names) Refresh(context.Context, int32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = n.coming
	return nil
}

// tenants are those of users of called names.
var tenants = []string{"", "acme", "zeta"}

// nameOfUser is what a user is called: the same in every tenant.
func nameOfUser(id schemas.UserID) schemas.Name {
	texts := []string{"ann, née O'Neil", "a\"b", "line\nend", "\r\n", "6f9619ff-8b86-d011-b42d-00c04fc964ff", " ", "event_id"}
	return schemas.Name{Tenant: tenants[int(id)%len(tenants)], Text: texts[int(id)/len(tenants)%len(texts)]}
}

// namedLog is changes of which some carry names, and what is known of the names: the changes of user 4 carry
// another one, the name of user 5 is not known.
func namedLog(seed uint64, users, length int) ([]store.Entry, *names) {
	all := shuffled(seed, users, length)
	n := &names{known: map[schemas.UserID]schemas.UserName{}}
	for i := range all {
		e := &all[i]
		if name := nameOfUser(e.User); e.User != 5 {
			n.known[e.User] = schemas.UserName{User: e.User, Name: name}
			if e.Version.Offset()%3 > 0 {
				e.Name = name
			}
		}
	}
	for i := range all { // the other name of an id of which only the changes know
		if all[i].User == 4 {
			all[i].Name = schemas.Name{Text: "eve"}
		}
	}
	return all, n
}

// namedRowsOf are the rows that a replay gives of changes, for a tenant (nil: all).
func namedRowsOf(changes []store.Entry, tenant *string) []store.Entry {
	rows := slices.Clone(changes)
	slices.SortFunc(rows, func(a, b store.Entry) int { return compareNamed(&a, &b) })
	for i := range rows {
		e := &rows[i]
		if e.Name = nameOfUser(e.User); e.User == 4 || e.User == 5 {
			e.Name = schemas.Name{}
		}
	}
	return slices.DeleteFunc(rows, func(e store.Entry) bool { return tenant != nil && (e.Name.Text == "" || e.Name.Tenant != *tenant) })
}

func namedFile(t *testing.T, format Format, columns Columns, rows []store.Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := ChangesWith(columns, format, &out)
	for i := range rows {
		must.Do(t, w.Write(&rows[i]))
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

func TestRowsHaveTheNamesThatAreKnownNow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		changes, known := namedLog(rapid.Uint64Range(1, 1000).Draw(rt, "seed"), 20, rapid.IntRange(0, 3000).Draw(rt, "length"))
		format := rapid.SampledFrom([]Format{JSONL, CSV, Parquet}).Draw(rt, "format")
		withoutNames(changes, known, 4) // the log alone does not know that user 4 has two names
		log := newTopic(rapid.Int32Range(1, 6).Draw(rt, "partitions"), changes)
		kept := archiveOf(log, rapid.Float64Range(0.7, 1).Draw(rt, "written"))
		for i := range kept.rows {
			kept.rows[i].Name = schemas.Name{} // the log of changes in a store has none
		}
		log.cut(rapid.Float64Range(0, 0.7).Draw(rt, "cut"))
		o := Defaults()
		o.Names = known
		o.Filter.Tenant = rapid.SampledFrom([]*string{nil, &tenants[0], &tenants[1]}).Draw(rt, "tenant")
		want := namedRowsOf(changes, o.Filter.Tenant)
		var out bytes.Buffer
		w := ChangesWith(Named, format, &out)
		sum, err := Run(t.Context(), log, kept, &o, w.Write)
		must.Do(t, errors.Join(err, w.Close()))
		same(t, "replay", out.Bytes(), namedFile(t, format, Named, want))
		if sum.Rows != int64(len(want)) || sum.Late != 0 {
			t.Fatalf("summary %+v of %d rows", sum, len(want))
		}
	})
}

// withoutNames leaves the names of a user out.
func withoutNames(changes []store.Entry, known *names, user schemas.UserID) {
	delete(known.known, user)
	for i := range changes {
		if changes[i].User == user {
			changes[i].Name = schemas.Name{}
		}
	}
}

func TestAChangeUnderAnotherNameThanItsUserHasIsShownWithoutName(t *testing.T) {
	t.Parallel()
	changes, known := namedLog(3, 20, 500)
	o := Defaults()
	o.Names = known
	unnamed := int64(0)
	sum, err := Run(t.Context(), newTopic(2, changes), nil, &o, func(e *store.Entry) error {
		if e.User == 4 || e.User == 5 {
			unnamed++
		}
		if want := nameOfUser(e.User); (e.User == 4 || e.User == 5) && e.Name != (schemas.Name{}) || e.User != 4 && e.User != 5 && e.Name != want {
			return fmt.Errorf("user %d is called %q", e.User, e.Name)
		}
		return nil
	})
	if err != nil || sum.Unnamed != unnamed || unnamed == 0 || known.asked > 2 {
		t.Errorf("%d of %d rows have no name, asked %d times; %v", sum.Unnamed, unnamed, known.asked, err)
	}
}

func TestAFolderWithOtherColumnsIsNotContinued(t *testing.T) {
	t.Parallel()
	changes, _ := namedLog(3, 20, 9)
	for _, format := range []Format{JSONL, CSV, Parquet} {
		for _, was := range []Columns{IDs, Named} {
			for _, is := range []Columns{IDs, Named} {
				folder := t.TempDir()
				name := filepath.Join(folder, "changes-000001."+string(format))
				must.Do(t, os.WriteFile(name, namedFile(t, format, was, changes), 0o600))
				_, have, from, err := Rotate(is, format, Rotation{Folder: folder}, true, time.Hour)
				if (err == nil) != (was == is) || err == nil && (len(have) == 0 || from == 0) {
					t.Errorf("%s: a file of kind %d is continued as %d: %d changes from %s, %v", format, was, is, len(have), from, err)
				}
			}
		}
	}
}

func TestAFolderWithAFileThatNoReplayHasWrittenIsNotContinued(t *testing.T) {
	t.Parallel()
	for format, lines := range map[Format][]string{
		JSONL: {`{"user_id":"7","from":"2026-11-20T10:00:00Z"}`, `{"event_id":"2gVCcZ6TqUq5bkKTo7CqEYvyHr0"}`, `{"changed_at":"2026-11-20T10:00:00Z"}`, `{}`, `{`},
		CSV:   {"a,b", strings.Join(headOf(IDs), ",") + "\nx,y"}, Parquet: {"PAR1"},
	} {
		for _, line := range lines {
			folder := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(folder, "changes-000001."+string(format)), []byte(line+"\n"), 0o600))
			if _, _, _, err := Rotate(IDs, format, Rotation{Folder: folder}, true, time.Hour); err == nil {
				t.Errorf("%s: %q is continued", format, line)
			}
		}
	}
}

func TestAFollowedChangeHasTheNameThatWasCommittedWithIt(t *testing.T) {
	t.Parallel()
	changes, known := namedLog(3, 20, 300)
	log, half := newTopic(2, changes), newTopic(2, changes[:150])
	known.coming, known.known = known.known, nil
	o := Defaults()
	o.Names, o.Filter.Tenant = known, &tenants[1]
	sum := must.Get(Run(t.Context(), half, nil, &o, func(*store.Entry) error { return nil }))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []store.Entry
	idle := 0
	must.Do(t, Follow(ctx, log, &o, sum, func(e *store.Entry) error { got = append(got, *e); return nil }, func() error {
		if idle++; idle == 2 { // both partitions
			cancel()
		}
		return nil
	}))
	want := namedRowsOf(changes[150:], &tenants[1])
	slices.SortFunc(got, func(a, b store.Entry) int { return compareNamed(&a, &b) })
	same(t, "followed", namedFile(t, JSONL, Named, got), namedFile(t, JSONL, Named, want))
}

func TestStatesAndSessionsHaveNames(t *testing.T) {
	t.Parallel()
	changes, known := namedLog(3, 20, 500)
	log := newTopic(3, changes)
	o := Defaults()
	o.Names, o.Filter.Tenant = known, &tenants[1]
	seen := map[schemas.UserID]bool{}
	sum, err := AsOf(t.Context(), log, nil, changes[400].At, &o, func(e *store.Entry) error {
		if seen[e.User] = true; e.Name != nameOfUser(e.User) || e.Name.Tenant != "acme" {
			return fmt.Errorf("user %d is called %q", e.User, e.Name)
		}
		return nil
	})
	if err != nil || len(seen) < 5 || sum.Rows != int64(len(seen)) || sum.Unnamed != 2 {
		t.Errorf("%d users, summary %+v, %v", len(seen), sum, err)
	}
	o.Filter.From, o.Filter.To = changes[200].At, changes[400].At
	var out bytes.Buffer
	w := SessionWriter(Named, JSONL, &out)
	_, err = Sessions(t.Context(), log, nil, &o, true, w.Write)
	must.Do(t, errors.Join(err, w.Close()))
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, `{"tenant":"acme","name":"`) || strings.Contains(line, "user_id") {
			t.Fatal(line)
		}
	}
	if strings.Count(out.String(), "\n") < 10 {
		t.Errorf("the sessions are %s", &out)
	}
}

func TestNamesAreWhatStandardReadersRead(t *testing.T) {
	t.Parallel()
	changes, _ := namedLog(3, 20, 100)
	rows := namedRowsOf(changes, nil)
	i := 0
	for line := range bytes.Lines(namedFile(t, JSONL, Named, rows)) {
		var row struct {
			User   any     `json:"user_id"`
			Tenant *string `json:"tenant"`
			Name   *string `json:"name"`
		}
		must.Do(t, json.Unmarshal(line, &row))
		wantName(t, rows[i].Name, row.Tenant, row.Name)
		if i++; row.User != nil {
			t.Fatal("a row has an internal id")
		}
	}
	records := must.Get(csv.NewReader(bytes.NewReader(namedFile(t, CSV, Named, rows))).ReadAll())(t)
	for i, r := range records[1:] {
		// A reader of Go's makes \r\n in quotes \n.
		if want := strings.ReplaceAll(MarkedText(rows[i].Name.Text), "\r\n", "\n"); r[1] != rows[i].Name.Tenant || r[2] != want {
			t.Fatalf("%q, want %+v", r, rows[i])
		}
	}
	file := namedFile(t, Parquet, Named, rows)
	reader := parquet.NewGenericReader[namedChange](bytes.NewReader(file))
	read := make([]namedChange, len(rows))
	if n, _ := reader.Read(read); n != len(rows) {
		t.Fatalf("%d rows of %d", n, len(rows))
	}
	for i := range read {
		wantName(t, rows[i].Name, read[i].Tenant, read[i].Name)
	}
	must.Do(t, reader.Close())
}

// wantName wants null for both if there is no name, and the default tenant to be empty.
func wantName(t *testing.T, want schemas.Name, tenant, name *string) {
	t.Helper()
	if want.Text == "" {
		if tenant != nil || name != nil {
			t.Fatalf("a user without a name is %q of %q", *name, *tenant)
		}
	} else if tenant == nil || name == nil || *tenant != want.Tenant || *name != want.Text {
		t.Fatalf("a user is %v of %v, want %+v", name, tenant, want)
	}
}

func TestWritingNamedLinesAllocatesNothing(t *testing.T) {
	rows := entries(5, 9, 40)
	rows[7].Name, rows[7].Override = schemas.Name{Tenant: "acme", Text: "ann"}, schemas.Override{}
	for _, format := range []Format{JSONL, CSV} {
		w := ChangesWith(Named, format, discard{})
		if n := testing.AllocsPerRun(1000, func() { _ = w.Write(&rows[7]) }); n != 0 {
			t.Errorf("%s: %v allocations a row", format, n)
		}
	}
}
