package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const people = 2000

// table is a database with people; the rows are in the file itself, or as a kill leaves
// them, half of them in its write-ahead log.
func table(t *testing.T, killed bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.db")
	db, err := sql.Open("sqlite", storeAddress(path, "immediate", time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	run := func(statement string, arguments ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, arguments...); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)`)
	run(`CREATE UNIQUE INDEX people_by_name ON people (name)`)
	run(`CREATE TABLE seen (id INTEGER, day INTEGER, PRIMARY KEY (id, day)) WITHOUT ROWID`)
	for i := range people {
		if killed && i == people/2 {
			run(`PRAGMA wal_checkpoint(TRUNCATE)`)
		}
		run(`INSERT INTO people VALUES (?, ?)`, i, fmt.Sprintf("person %05d of them all", i))
		run(`INSERT INTO seen VALUES (?, 1)`, i)
	}
	if !killed {
		return path
	}
	into := filepath.Join(t.TempDir(), "people.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(into+suffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return into
}

func count(t *testing.T, path, what string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", storeAddress(path, "deferred", time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), what).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func change(t *testing.T, file string, how func(text []byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, how(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWholeFilesAndWhatAKillCutsOffAreNoDamage(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none.db")
	for _, path := range []string{none, table(t, false), table(t, true)} {
		if err := EnsureIntact(t.Context(), path, false, nil); err != nil {
			t.Error(err)
		}
	}
	path := table(t, true)
	change(t, path+"-wal", func(text []byte) []byte { return text[:len(text)-1000] })
	if err := EnsureIntact(t.Context(), path, false, nil); err != nil {
		t.Error(err)
	}
	if n := count(t, path, `SELECT count(*) FROM people`); n < people-2 {
		t.Errorf("%d people, of %d", n, people)
	}
}

func TestADamagedFileIsRefusedAndWithConsentTheRowsThatCanBeReadAreKept(t *testing.T) {
	t.Parallel()
	page := func(text []byte, holding string) int { return bytes.LastIndex(text, []byte(holding)) / 4096 * 4096 }
	for name, c := range map[string]struct {
		killed bool
		file   string // its suffix
		how    func(text []byte) []byte
		least  int // people who are left
	}{
		"a bit of a row":          {false, "", func(text []byte) []byte { text[bytes.LastIndex(text, []byte("person 00700"))] ^= 1; return text }, people - 1},
		"a bit of a page's kind":  {false, "", func(text []byte) []byte { text[page(text, "person 00700 of")] ^= 2; return text }, people - 300},
		"a page of zeros":         {false, "", func(text []byte) []byte { clear(text[page(text, "person 00700 of"):][:4096]); return text }, people - 300},
		"the first bytes":         {false, "", func(text []byte) []byte { text[3] ^= 1; return text }, -1},
		"a bit of the log":        {true, "-wal", func(text []byte) []byte { text[walHead+(frameHead+4096)*20+100] ^= 1; return text }, people / 2},
		"a bit of a frame's salt": {true, "-wal", func(text []byte) []byte { text[walHead+(frameHead+4096)*20+8] ^= 1; return text }, people / 2},
		"a bit of the log's head": {true, "-wal", func(text []byte) []byte { text[13] ^= 1; return text }, people / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := table(t, c.killed)
			change(t, path+c.file, c.how)
			for range 2 { // refusing changes nothing
				err := EnsureIntact(t.Context(), path, false, slog.New(slog.DiscardHandler))
				if !errors.Is(err, ErrCorrupt) || !strings.HasPrefix(err.Error(), path+c.file+" ") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "--accept-data-loss") {
					t.Fatalf("it is answered %v, want one line with the file", err)
				}
			}
			var log bytes.Buffer
			if err := EnsureIntact(t.Context(), path, true, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), path+c.file) {
				t.Errorf("the log does not say what is lost: %s", log.String())
			}
			if err := EnsureIntact(t.Context(), path, false, nil); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if _, err := os.Stat(path + ".damaged"); err != nil {
				t.Error(err)
			}
			if c.least < 0 {
				return // nothing can be read: the file is empty
			}
			n, seen := count(t, path, `SELECT count(*) FROM people`), count(t, path, `SELECT count(*) FROM seen`)
			if n < c.least || n > people || seen < c.least {
				t.Errorf("%d people and %d times seen are left, want at least %d", n, seen, c.least)
			}
			t.Logf("%d of %d people are left", n, people)
		})
	}
}

// flipValue changes a digit of a note, which breaks no rule of the file and is in no index, and
// leaves the time of the last writing, as a bad disk does.
func flipValue(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, []byte("note 01234"))+len("note 0")] ^= 2
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func TestOneFlippedBitWithinAValueOfASealedFileIsFound(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	exec := func(path, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", storeAddress(path, "immediate", time.Second))
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), statement)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		before func(path string)
		found  bool
	}{
		"sealed":     {func(path string) { flipValue(t, path) }, true},
		"untouched":  {func(string) {}, false},
		"edited":     {func(path string) { exec(path, `DELETE FROM people WHERE id = 7`) }, false},
		"seal broke": {func(path string) { _ = os.WriteFile(path+sealSuffix, []byte("7 7 7 7\n"), 0o600) }, false},
	} {
		path := table(t, false)
		exec(path, `CREATE TABLE notes AS SELECT 'note ' || printf('%05d', id) AS text FROM people`)
		if err := Seal(path); err != nil {
			t.Fatal(err)
		}
		c.before(path)
		err := EnsureIntact(t.Context(), path, false, log)
		if errors.Is(err, ErrCorrupt) != c.found || !c.found && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := EnsureIntact(t.Context(), path, true, log); err != nil {
			t.Errorf("%s: going on: %v", name, err)
		}
		if _, err := os.Stat(path + sealSuffix); err == nil {
			t.Errorf("%s: the seal is there while the file is in use", name)
		}
	}
}

func TestAFileThatSomebodyHasOpenIsNotSealed(t *testing.T) {
	t.Parallel()
	path := table(t, true)
	if err := Seal(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + sealSuffix); err == nil {
		t.Error("a file with a write-ahead log is sealed")
	}
	if err := Seal(filepath.Join(t.TempDir(), "none.db")); err != nil {
		t.Error(err)
	}
}
