package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// answers is an API with the answers of a file, by paths.
func answers(t *testing.T) *httptest.Server {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/outputs/api.json"))(t)
	var all map[string]json.RawMessage
	must.Do(t, json.Unmarshal(text, &all))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := all[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(answer) // the command says what is missing
	}))
	t.Cleanup(server.Close)
	return server
}

// TestOutputsAreAsTheyWere compares what commands print with golden files. What needs Kafka is compared across formats by a test of processes.
func TestOutputsAreAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	graph := filepath.Join(dir, "graph.db")
	if code, out, errs := printed(t, "graph", "edges", "1", "2", "3", "9223372036854775807", "--sqlite", graph); code != 0 {
		t.Fatalf("%d, %s%s", code, out, errs)
	}
	api := []string{"--url", answers(t).URL}
	const all = "table json jsonl csv"
	for _, c := range []struct {
		name, formats string // - is without --output
		words, more   []string
	}{
		{"get", all + " -", strings.Fields("get 1 2 3 9223372036854775807"), api},
		{"get one", all, strings.Fields("get 1"), api},
		{"get by name", all, strings.Fields("get ann --ids text --tenant acme"), api},
		{"audience", all + " -", strings.Fields("audience 1 2"), api},
		{"override get", all + " -", strings.Fields("override get 1 2"), api},
		{"history", all + " -", strings.Fields("history 1"), api},
		{"history of nobody", all, strings.Fields("history 2"), api},
		{"status", "table json jsonl -", strings.Fields("status"), api},
		{"status partitions", all, strings.Fields("status --table partitions"), api},
		{"status instances", all, strings.Fields("status --table instances"), api},
		{"status groups", all, strings.Fields("status --table groups"), api},
		{"status gateways", all, strings.Fields("status --table gateways"), api},
		{"plan", "table jsonl csv helm-values -", strings.Fields("plan --users 5M"), nil},
		{"topics acls", all + " commands -", strings.Fields("topics acls --role gateway --principal User:g"), nil},
		{"graph followers", all + " -", strings.Fields("graph followers 1"), []string{"--sqlite", graph}},
		{"graph followers count", all + " -", strings.Fields("graph followers 1 --table count"), []string{"--sqlite", graph}},
		{"identity of names", all + " -", []string{"identity", "ann", `née "O'Neil"`}, textFlags(t, identity.Key{1})[2:]},
	} {
		var got strings.Builder
		for format := range strings.FieldsSeq(c.formats) {
			args := slices.Concat(c.words, c.more)
			if format != "-" {
				args = append(args, "--output", format)
			}
			code, out, errs := printed(t, args...)
			if code != 0 {
				t.Errorf("%q: code %d: %s", args, code, errs)
			}
			fmt.Fprintf(&got, "== %s\n%s", format, out)
		}
		path := filepath.Join("testdata", "outputs", strings.ReplaceAll(c.name, " ", "-")+".txt")
		if *update {
			must.Do(t, os.WriteFile(path, []byte(got.String()), 0o644))
		}
		if want, err := os.ReadFile(path); err != nil || got.String() != string(want) {
			t.Errorf("%s: %v, got:\n%swant:\n%s", path, err, got.String(), want)
		}
	}
}
