package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/tools/reference"
)

//go:generate go test -count=1 -run ^TestTheReferenceIsWhatTheProgramSays$ -update .

var update = flag.Bool("update", false, "write docs/reference instead of comparing it")

// Not parallel, as parse sets the environment.
func TestTheReferenceIsWhatTheProgramSays(t *testing.T) {
	const root = "../.."
	parsed, err := parse(t, []string{"config", "init"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	program := parsed.Model.Node
	pages := map[string]func() (string, error){
		"docs/reference/commands.md": func() (string, error) { return reference.Commands(program), nil },
		"docs/reference/metrics.md":  func() (string, error) { return reference.MetricsPage(root) },
	}
	for name, page := range pages {
		text, err := page()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.FromSlash(name))
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s is out of date (%v): run \"go generate ./cmd/stillhere\"", name, err)
		}
	}
}
