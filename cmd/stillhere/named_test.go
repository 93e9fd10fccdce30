package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
)

// textFlags are the flags of a pipeline in text mode, with a key in a file.
func textFlags(t *testing.T, key identity.Key) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "identity.key")
	must.Do(t, os.WriteFile(file, []byte(key.Hex()), 0o600))
	return []string{"--ids", "text", "--identity-key-file", file}
}

// printed is stillhere for commands that write to standard output.
func printed(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	before := os.Stdout
	os.Stdout = file
	code, _, errs = stillhere(t, "", args...)
	os.Stdout = before
	text, err := os.ReadFile(file.Name())
	must.Do(t, errors.Join(err, file.Close()))
	return code, string(text), errs
}

func TestImportsAndExportsNameUsersOfATenant(t *testing.T) {
	dir := t.TempDir()
	database, file := filepath.Join(dir, "stillhere.db"), filepath.Join(dir, "seen.csv")
	config := sqlitestore.Defaults()
	config.Path = database
	s := must.Get(sqlitestore.Open(t.Context(), config))(t)
	must.Do(t, s.Close())
	must.Do(t, os.WriteFile(file, []byte("name,last_seen\n\"ann, née O'Neil\",2026-11-20T10:00:00Z\n"), 0o600))
	flags := append(textFlags(t, identity.Key{1}), "--sqlite", database)
	with := func(args ...string) []string { return append(args, flags...) }
	if code, out, errs := printed(t, with("import", "last-seen", file, "--tenant", "acme")...); code != 0 || !strings.Contains(out, "1 stored") {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	exported := func(want string, args ...string) {
		t.Helper()
		code, out, errs := printed(t, append([]string{"export", "--no-status"}, args...)...)
		if !strings.Contains(out+errs, want) || (code == 0) != (errs == "") {
			t.Errorf("%v: exit %d, %s%s, want %s", args, code, out, errs, want)
		}
	}
	exported(`"user_id":"ann, née O'Neil","tenant":"acme","state":"offline"`, with("ann, née O'Neil", "--tenant", "acme")...)
	if code, out, _ := printed(t, with("export", "--no-status", "ann, née O'Neil")...); code != 0 || out != "" {
		t.Errorf("the user of another tenant is exported: %d, %s", code, out)
	}
	id := identity.Named(identity.Key{1}).ID("acme", "ann, née O'Neil").String()
	exported("with --ids text", id, "--sqlite", database)
	exported("--tenant: only pipelines with --ids text have tenants", id, "--sqlite", database, "--tenant", "acme")
	exported("--tenant: must be at most 64", with("ann", "--tenant", "a/b")...)
}
