package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/tools/progress"
)

// serveVariable makes the test binary run the stand-ins.
const serveVariable = "STILLHERE_BENCH_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) != "" {
		tool := map[string]func(io.Writer, io.Reader) error{"serve": Serve, "node": Node, "watchers": Watch, "bare": Bare}[os.Getenv(serveVariable)]
		if err := tool(os.Stdout, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func small(users int, seconds float64) Options {
	tool := func(ctx context.Context, name string) *exec.Cmd {
		command := exec.CommandContext(ctx, os.Args[0])
		command.Env = append(os.Environ(), serveVariable+"="+name)
		return command
	}
	return Options{Users: users, Sockets: 200, Seconds: seconds, Partitions: 2, Progress: progress.None(), Tool: tool,
		Cluster: func(ctx context.Context) *exec.Cmd { return tool(ctx, "serve") }}
}

func TestEveryBenchComesToItsEndAndFillsTheReport(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and takes seconds")
	}
	readFigures := 6
	if _, err := exec.LookPath("redis-server"); err == nil {
		readFigures++
	}
	for name, want := range map[string]struct {
		users, figures int
		seconds        float64
	}{
		"liveness": {5000, 5, 0.2}, "detector": {5000, 4, 0.2}, "silence": {500, 12, 0.5}, "restore": {5000, 3, 0}, "live": {100, 11, 1}, "rebuild": {2000, 4, 0},
		"sink":     {1000, 4, 0},
		"reads":    {1000, readFigures, 1}, // processor time is counted in hundredths
		"pipeline": {50, 11, 2},            // a gateway sends repeats once a second
		"fanout":   {20_000, 11, 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "liveness" { // which looks at the heap
				t.Parallel()
			}
			report, err := Run(t.Context(), name, "test", small(want.users, want.seconds))
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
				if f.Value <= 0 && f.Unit != "per beat" && name != "rebuild" {
					t.Errorf("%s is %g %s", f.Name, f.Value, f.Unit)
				}
			}
		})
	}
}

func TestTheReportSaysWhatWasReachedAndHowMuchBetterThatIs(t *testing.T) {
	t.Parallel()
	r := Report{Version: "v1", Redis: "7.0", Results: []Result{{Name: "silence", What: "x", Users: 1_000_000}}}
	result := &r.Results[0]
	result.add("rate", 30, "M beats/s").atLeast(15).against(0.25)
	result.add("lateness", 2500, "ms").atMost(1000).against(10_000)
	var page bytes.Buffer
	if err := r.WriteMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| silence | rate | 30.0 M beats/s | ≥ 15.0 ✓ | 0.25 | 120× |",
		"|  | lateness | 2,500 ms | ≤ 1,000 ✗ | 10,000 | 4.00× |",
		"1,000,000 users",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing in\n%s", want, page.String())
		}
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"less_is_better":true`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestQuantilesAreThoseOfTheSortedTimes(t *testing.T) {
	t.Parallel()
	var s spread
	for i := range 100 {
		s = append(s, 0)
		s[i] = 1
	}
	if (spread{}).at(0.5) != 0 || s.at(1) != 1 {
		t.Error("the quantiles of nothing and of equal times are wrong")
	}
	s = spread{1, 2, 3, 4}
	if s.at(0.5) != 3 || s.at(0.99) != 4 || s.at(0) != 1 {
		t.Errorf("got %v %v %v", s.at(0.5), s.at(0.99), s.at(0))
	}
}

func TestABenchThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), "nothing", "test", small(1, 1)); err == nil {
		t.Error("it ran")
	}
}
