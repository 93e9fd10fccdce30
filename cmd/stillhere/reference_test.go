package main

import (
	"flag"
	"os"
	"testing"

	"github.com/stillhere/stillhere/tools/reference"
)

//go:generate go test -count=1 -run ^TestTheReferenceIsWhatTheProgramSays$ -update .

var update = flag.Bool("update", false, "write docs/reference instead of comparing it")

func TestTheReferenceIsWhatTheProgramSays(t *testing.T) {
	t.Parallel()
	const path = "../../docs/reference/metrics.md"
	text, err := reference.MetricsPage("../..")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != text {
		t.Errorf("%s is out of date (%v): run \"go generate ./cmd/stillhere\"", path, err)
	}
}
