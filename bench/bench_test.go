package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/tools/loadtest"
	"github.com/stillhere/stillhere/tools/progress"
)

// processVariable makes the test binary run a process of a bench.
const processVariable = "STILLHERE_BENCH_PROCESS"

func TestMain(m *testing.M) {
	if name := os.Getenv(processVariable); name != "" {
		if err := processes[name](os.Stdout, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func small(users int, seconds float64) loadtest.Options {
	process := func(ctx context.Context, name string) *exec.Cmd {
		command := exec.CommandContext(ctx, os.Args[0])
		command.Env = append(os.Environ(), processVariable+"="+name)
		return command
	}
	return loadtest.Options{Users: users, Seconds: seconds, Partitions: 2, Progress: progress.None(), Process: process}
}

func TestABenchThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := (&lab{Name: "nothing"}).chosen(); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
		t.Error(err)
	}
	for name, want := range map[string]int{"liveness": 1, "all": len((&lab{}).benches())} {
		if chosen, err := (&lab{Name: name}).chosen(); err != nil || len(chosen) != want {
			t.Errorf("%s: %d benches, %v", name, len(chosen), err)
		}
	}
}

func TestEveryBenchComesToItsEndAndFillsTheReport(t *testing.T) {
	all := os.Getenv("STILLHERE_FULL") != "" && !testing.Short()
	l := &lab{Sockets: 200, PerProcess: 150}
	readFigures := 7
	if _, err := exec.LookPath("redis-server"); err == nil {
		readFigures++
	}
	wants := map[string]struct {
		users, figures int
		seconds        float64
	}{
		"liveness": {5000, 5, 0.2}, "detector": {5000, 12, 0.2}, "silence": {500, 12, 0.5}, "restore": {5000, 3, 0}, "live": {100, 13, 1}, "rebuild": {2000, 4, 0},
		"sink":     {1000, 4, 0},
		"reads":    {1000, readFigures, 1}, // processor time is counted in hundredths
		"pipeline": {50, 11, 2},            // a gateway sends repeats once a second
		"fanout":   {20_000, 11, 0.3},
	}
	for _, b := range l.benches() {
		want, name := wants[b.Name], b.Name
		t.Run(name, func(t *testing.T) {
			if want.users == 0 {
				t.Skip("replays at full size only")
			}
			if !all && name != "liveness" && name != "restore" {
				t.Skip("starts processes and takes seconds: STILLHERE_FULL=1 runs it")
			}
			if name != "liveness" { // which looks at the heap
				t.Parallel()
			}
			report, err := loadtest.Run(t.Context(), small(want.users, want.seconds), b)
			if errors.Is(err, errNoPsql) || errors.Is(err, pgtest.ErrMissing) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			figures := report.Results[0].Figures
			if len(figures) != want.figures {
				t.Errorf("%d figures, want %d", len(figures), want.figures)
			}
			for _, f := range figures {
				if f.Value <= 0 && f.Unit != "per beat" && name != "rebuild" && !strings.HasPrefix(f.Name, "processor time") {
					t.Errorf("%s is %g %s", f.Name, f.Value, f.Unit)
				}
			}
		})
	}
}
