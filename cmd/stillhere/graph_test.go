package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAMisspeltGraphIsNoEmptyGraph(t *testing.T) {
	file := filepath.Join(t.TempDir(), "graph.db")
	for _, args := range [][]string{{"followers", "1"}, {"edges", "--remove", "1", "2"}, {"list", "--remove", "1"}} {
		code, _, errs := stillhere(t, "", append(append([]string{"graph"}, args...), "--sqlite", file)...)
		if code == 0 || !strings.Contains(errs, "--sqlite") || !strings.Contains(errs, "no such file") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
		if _, err := os.Stat(file); err == nil {
			t.Fatalf("%v made a file", args)
		}
	}
	for _, args := range [][]string{{"edges", "1", "2"}, {"followers", "1"}, {"list", "1"}, {"list", "--remove", "1"}} {
		if code, _, errs := stillhere(t, "", append(append([]string{"graph"}, args...), "--sqlite", file)...); code != 0 {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
}

func TestAFileInWhichNoLineIsAnEdgeIsAFault(t *testing.T) {
	folder := t.TempDir()
	for text, want := range map[string]int{"1;2\n3;4\n": 1, "user,follower\n1;2\n1,2\n": 0, "user,follower\n": 0, "": 0} {
		file := filepath.Join(folder, "follows.csv")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		code, _, errs := stillhere(t, "", "graph", "edges", "--file", file, "--from-start", "--sqlite", filepath.Join(folder, "graph.db"))
		if code != want || want != 0 && !strings.Contains(errs, "no line of") {
			t.Errorf("%q: exit %d, %s", text, code, errs)
		}
	}
}

func TestFollowersArePrintedWithoutWhatTerminalsObey(t *testing.T) {
	folder := t.TempDir()
	key := filepath.Join(folder, "identity.key")
	must.Do(t, os.WriteFile(key, []byte(identity.NewKey().Hex()), 0o600))
	follow := func(command string, more ...string) string {
		args := append([]string{"graph", command, "ann"}, more...)
		code, out, errs := printed(t, append(args, "--ids", "text", "--identity-key-file", key, "--sqlite", filepath.Join(folder, "graph.db"))...)
		if code != 0 {
			t.Fatalf("%v: %s", args, errs)
		}
		return out
	}
	for _, name := range []string{"eve\x1b[2J", "two\nbob", "\u202egnp.exe", "=HYPERLINK(1)"} {
		follow("edges", name)
	}
	lines := strings.Split(strings.TrimSuffix(follow("followers"), "\n"), "\n")
	slices.Sort(lines)
	if want := []string{"=HYPERLINK(1)", `\u202egnp.exe`, `eve\x1b[2J`, `two\nbob`}; !slices.Equal(lines, want) {
		t.Errorf("printed are %q, want %q", lines, want)
	}
	if out := follow("followers", "--output", "csv"); !strings.Contains(out, "\n'=HYPERLINK(1)\n") {
		t.Errorf("in CSV a name is a formula: %q", out)
	}
}
