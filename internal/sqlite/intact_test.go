package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

const people = 2000

// table is a database with people, half of them in its write-ahead log, as a kill leaves it.
func table(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.db")
	db := must.Get(sql.Open("sqlite", storeAddress(path, "immediate", time.Second)))(t)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	run := func(statement string, arguments ...any) {
		t.Helper()
		must.Get(db.ExecContext(t.Context(), statement, arguments...))(t)
	}
	run(`CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)`)
	for i := range people {
		if i == people/2 {
			run(`PRAGMA wal_checkpoint(TRUNCATE)`)
		}
		run(`INSERT INTO people VALUES (?, ?)`, i, fmt.Sprintf("person %05d of them all", i))
	}
	into := filepath.Join(t.TempDir(), "people.db")
	for _, suffix := range []string{"", "-wal"} {
		change(t, path+suffix, into+suffix, func(text []byte) []byte { return text })
	}
	return into
}

func change(t *testing.T, from, to string, how func(text []byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, how(text), 0o600)
	}
	must.Do(t, err)
}

func TestWholeFilesAndWhatAKillCutsOffAreIntact(t *testing.T) {
	t.Parallel()
	cutOff := table(t)
	change(t, cutOff+"-wal", cutOff+"-wal", func(text []byte) []byte { return text[:len(text)-1000] })
	for _, path := range []string{filepath.Join(t.TempDir(), "none.db"), table(t), cutOff} {
		must.Do(t, CheckIntact(t.Context(), path))
	}
}

func TestAFileWithADamagedStructureIsNamedInOneLine(t *testing.T) {
	t.Parallel()
	page := func(text []byte) []byte {
		return text[bytes.LastIndex(text, []byte("person 00700 of"))/4096*4096:][:4096]
	}
	for name, how := range map[string]func(text []byte) []byte{
		"a page's kind":   func(text []byte) []byte { page(text)[0] ^= 2; return text },
		"a page of zeros": func(text []byte) []byte { clear(page(text)); return text },
		"the first bytes": func(text []byte) []byte { text[3] ^= 1; return text },
	} {
		path := table(t)
		change(t, path, path, how)
		err := CheckIntact(t.Context(), path)
		if !errors.Is(err, ErrCorrupt) || !strings.HasPrefix(err.Error(), path+" ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with the file", name, err)
		}
	}
}
