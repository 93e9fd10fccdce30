package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryPlaceOfACommandLineIsCompletedByWhatMayStandThere(t *testing.T) {
	for _, c := range []struct {
		words string // divided by spaces; the last is being written
		want  []string
		not   []string
	}{
		{"", []string{"dev", "replay", "topics"}, []string{"complete", "--config", "apply"}},
		{"re", []string{"replay", "rebuild", "record"}, []string{"dev"}},
		{"topics ", []string{"apply", "acls"}, []string{"dev"}},
		{"topics apply --par", []string{"--partitions"}, nil},
		{"replay --fo", []string{"--follow"}, []string{"--from"}},
		{"replay --ou", []string{"--output", "--out"}, nil},
		{"tenants show --output ", []string{"table", "json", "csv"}, []string{"text", "commands"}},
		{"replay --output ", []string{"jsonl", "csv", "parquet"}, []string{"dev"}},
		{"replay --output p", []string{"parquet"}, []string{"csv"}},
		{"replay --output=p", []string{"--output=parquet"}, []string{"parquet"}},
		{"replay --output = p", []string{"parquet"}, []string{"csv"}}, // as bash cuts it
		{"replay --output =", []string{"parquet", "csv"}, nil},
		{"replay --output csv --sou", []string{"--source"}, nil},
		{"replay --sqlite ", []string{files}, nil},
		{"replay --follow --kafka-s", []string{"--kafka-sasl"}, nil},
		{"export --no-st", []string{"--no-status"}, nil},
		{"config check ", []string{"detector", "all"}, nil},
		{"graph edges --file ", []string{files}, nil},
		{"bench ", []string{"pipeline"}, []string{"serve"}},
		{"--conf", []string{"--config"}, nil},
		{"dev --partitions 4 --us", []string{"--users"}, nil},
		{"nonsense --what ever", nil, []string{"dev"}},
	} {
		code, out, errs := stillhere(t, "", append([]string{"complete", "--"}, strings.Split(c.words, " ")...)...)
		if code != 0 {
			t.Fatalf("%q: code %d, %s", c.words, code, errs)
		}
		var words []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(line, "\t")
			words = append(words, word)
		}
		for _, want := range c.want {
			if !slices.Contains(words, want) {
				t.Errorf("%q: want %q among %q", c.words, want, words)
			}
		}
		for _, not := range c.not {
			if slices.Contains(words, not) {
				t.Errorf("%q: %q must not be among %q", c.words, not, words)
			}
		}
	}
}

func TestShellsLoadTheirCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			code, script, errs := stillhere(t, "", "completion", shell)
			if code != 0 || !strings.Contains(script, "complete --") {
				t.Fatalf("code %d, %s%s", code, script, errs)
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(shell + " is not installed")
			}
			check := exec.Command(path, "-n")
			check.Dir, check.Stdin = t.TempDir(), strings.NewReader(script)
			if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
				t.Errorf("%s: %v: %s", filepath.Base(path), err, said)
			}
		})
	}
	if code, _, errs := stillhere(t, "", "completion", "tcsh"); code != 2 || !strings.Contains(errs, "bash") {
		t.Errorf("tcsh: code %d, %s", code, errs)
	}
}
