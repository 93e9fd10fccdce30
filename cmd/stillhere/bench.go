package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/tools/bench"
	"github.com/stillhere/stillhere/tools/progress"
)

// benchCommand measures how fast Stillhere is on this machine.
type benchCommand struct {
	Liveness benchRun  `cmd:"" help:"The state machine alone, on one core."`
	Detector benchRun  `cmd:"" help:"Heartbeats from Kafka through the detector."`
	Pipeline benchRun  `cmd:"" help:"From a beat to the committed transition and the API's answer."`
	Live     benchLive `cmd:"" help:"From a beat to the frame on the sockets of those who watch."`
	Silence  benchRun  `cmd:"" help:"All users fall silent at once: how late each is found."`
	Rebuild  benchRun  `cmd:"" help:"Redis loses everything: time until answers are fresh, and what is answered meanwhile."`
	Reads    benchRun  `cmd:"" help:"The states of fifty users at a time, asked of the API by many."`
	Replay   benchRun  `cmd:"" help:"Transitions from the topic into files for data teams."`
	Sink     benchRun  `cmd:"" help:"Transitions from the topic into Postgres, against psql's COPY and upsert of the same rows."`
	Restore  benchRun  `cmd:"" help:"A partition's owner is replaced: time until it runs again."`
	Fanout   benchRun  `cmd:"" help:"The followers of one user with many are told; --users is how many it has."`
	All      benchAll  `cmd:"" help:"All of them, as a page."`
	Serve    serveTool `cmd:"" hidden:"" help:"Run the servers of a bench in this process until standard input ends."`
	Node     nodeTool  `cmd:"" hidden:"" help:"Serve viewers in this process until standard input ends."`
	Bare     bareTool  `cmd:"" hidden:"" help:"Write to sockets in this process until standard input ends."`
	Watchers watchTool `cmd:"" hidden:"" help:"Be viewers in this process until standard input ends."`
}

// benchFlags are those of every bench. None is taken from the environment: where
// STILLHERE_REDIS names a server, that is not one to measure on.
type benchFlags struct {
	Users      int      `help:"How many users; as many as the design's target names when left out." env:"-"`
	Seconds    float64  `help:"How long the measured part lasts; 0: as long as it needs. For silence: when a silent user is offline." env:"-"`
	Partitions int32    `help:"Partitions of the topics." default:"4" env:"-"`
	Brokers    []string `help:"Kafka to measure on, host:port; topics are made there and deleted. A stand-in in another process when left out." env:"-"`
	Redis      string   `help:"An empty Redis to measure the one-key-per-user design on in the same run, host:port." env:"-"`
	Postgres   string   `help:"Postgres to measure on. Bench sink makes databases there and drops them, and starts a private server when it is left out; bench fanout keeps its graph there for the next run, in SQLite when it is left out." env:"-"`
	JSON       bool     `name:"json" help:"Print the results as JSON." env:"-"`
	sockets    int
	CPUProfile string `name:"cpuprofile" help:"Write a CPU profile of the measured part to this file; of further parts to FILE.2 and so on." type:"path" env:"-"`
}

// benchRun runs one bench.
type benchRun struct{ benchFlags }

// Run runs the bench that the command names.
func (c *benchRun) Run(ctx context.Context, command role) error {
	_, err := c.run(ctx, strings.TrimPrefix(string(command), "bench "))
	return err
}

// benchLive is the one of the stream.
type benchLive struct {
	benchFlags
	reportFlag
	Sockets int `help:"How many sockets watch one user; 100,000 when left out. As many processes are started as the limit on open files needs." env:"-"`
}

// Run runs it.
func (c *benchLive) Run(ctx context.Context) error {
	c.sockets = c.Sockets
	report, err := c.run(ctx, "live")
	return c.write(report, err)
}

// benchAll runs all of them.
type benchAll struct {
	benchFlags
	reportFlag
}

// Run runs them one after the other. What was measured before one failed is
// reported all the same.
func (c *benchAll) Run(ctx context.Context) error {
	report, err := c.run(ctx, "all")
	return c.write(report, err)
}

// reportFlag says where a page of the results goes.
type reportFlag struct {
	Report string `help:"Write a page in Markdown to this file." type:"path" env:"-"`
}

// write writes the page, if there is anything to be written, and adds to err.
func (c *reportFlag) write(report *bench.Report, err error) error {
	if report == nil || c.Report == "" {
		return err
	}
	file, failed := os.Create(c.Report)
	if failed == nil {
		failed = errors.Join(report.WriteMarkdown(file), file.Close())
	}
	if failed != nil {
		failed = fmt.Errorf("--report: %w", failed)
	}
	return errors.Join(err, failed)
}

func (f *benchFlags) run(ctx context.Context, name string) (*bench.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("looking for this program, to run it once more: %w", err)
	}
	options := bench.Options{
		Users: f.Users, Seconds: f.Seconds, Partitions: f.Partitions, Brokers: f.Brokers, Redis: f.Redis, Postgres: f.Postgres, Progress: progress.Stderr(),
		Cluster: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, "bench", "serve") },
		Tool:    func(ctx context.Context, name string) *exec.Cmd { return exec.CommandContext(ctx, self, "bench", name) },
		Sockets: f.sockets,
	}
	if f.CPUProfile != "" {
		options.Profile = f.profile()
	}
	report, err := bench.Run(ctx, name, version, options)
	if report == nil {
		return nil, err
	}
	if f.JSON {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return report, errors.Join(err, encoder.Encode(report))
	}
	return report, errors.Join(err, report.WriteText(os.Stdout))
}

// profile opens the file of the first measured part, and files with numbers for
// those after it.
func (f *benchFlags) profile() func() (io.WriteCloser, error) {
	opened := 0
	return func() (io.WriteCloser, error) {
		name := f.CPUProfile
		if opened++; opened > 1 {
			name += "." + strconv.Itoa(opened)
		}
		return os.Create(name)
	}
}

// serveTool is what a bench starts in another process.
type serveTool struct{}

// Run serves.
func (serveTool) Run() error { return bench.Serve(os.Stdout, os.Stdin) }

// nodeTool is what the bench of the stream starts in other processes.
type nodeTool struct{}

// Run serves viewers.
func (nodeTool) Run() error { return bench.Node(os.Stdout, os.Stdin) }

// bareTool is what they are compared with.
type bareTool struct{}

// Run writes.
func (bareTool) Run() error { return bench.Bare(os.Stdout, os.Stdin) }

// watchTool is too.
type watchTool struct{}

// Run watches.
func (watchTool) Run() error { return bench.Watch(os.Stdout, os.Stdin) }
