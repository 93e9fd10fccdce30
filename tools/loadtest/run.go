package loadtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/tools/progress"
)

// Flags are those of every bench. None is taken from the environment: where STILLHERE_KAFKA
// names a cluster, that is not one to measure on.
type Flags struct {
	Users      int      `help:"How many users; as many as the design's target names when left out." env:"-"`
	Seconds    float64  `help:"How long the measured part lasts; 0: as long as it needs. For silence: when a silent user is offline." env:"-"`
	Partitions int32    `help:"Partitions of the topics." default:"4" env:"-"`
	Brokers    []string `help:"Kafka to measure on, host:port; topics are made there and deleted. A stand-in in another process when left out." env:"-"`
	JSON       bool     `name:"json" help:"Print the results as JSON." env:"-"`
	CPUProfile string   `name:"cpuprofile" help:"Write a CPU profile of the measured part to this file; of further parts to FILE.2 and so on." type:"path" env:"-"`
	Report     string   `help:"Write a page in Markdown to this file." type:"path" env:"-"`
}

// Measure runs benches one after the other and prints what they measured. What was measured
// before one failed is reported all the same. reference is the version of the Redis that
// serves as reference, if any; process starts this program once more, as a Process.
func (f *Flags) Measure(ctx context.Context, version, reference string, process []string, benches ...Bench) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program, to run it once more: %w", err)
	}
	o := Options{Users: f.Users, Seconds: f.Seconds, Partitions: f.Partitions, Brokers: f.Brokers, Progress: progress.Stderr(),
		Process: func(ctx context.Context, name string) *exec.Cmd {
			return exec.CommandContext(ctx, self, append(process, name)...)
		}}
	if f.CPUProfile != "" {
		o.Profile = f.profile()
	}
	report, err := Run(ctx, o, benches...)
	report.Version, report.Redis = version, reference
	write := report.WriteText
	if f.JSON {
		write = func(out io.Writer) error {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(report)
		}
	}
	return errors.Join(err, write(os.Stdout), f.page(report))
}

// page writes the Markdown, if it is asked for.
func (f *Flags) page(report *Report) error {
	if f.Report == "" {
		return nil
	}
	file, err := os.Create(f.Report)
	if err == nil {
		err = errors.Join(report.WriteMarkdown(file), file.Close())
	}
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// profile opens the file of the first measured part, and numbered files for those after it.
func (f *Flags) profile() func() (io.WriteCloser, error) {
	opened := 0
	return func() (io.WriteCloser, error) {
		name := f.CPUProfile
		if opened++; opened > 1 {
			name += "." + strconv.Itoa(opened)
		}
		return os.Create(name)
	}
}

// Options say how to measure.
type Options struct {
	// Users is how many there are; 0: as many as the bench's target names.
	Users int
	// Seconds is how long the measured part lasts, as near as the bench can; 0: what it takes
	// to get steady figures.
	Seconds float64
	// Given tells that Seconds was not 0.
	Given bool
	// Partitions of each topic.
	Partitions int32
	// Brokers is the Kafka to measure on; none: the stand-in, in another process.
	Brokers []string
	// Process makes the command that runs this program as a helper, such as "serve" (Serve).
	Process func(ctx context.Context, name string) *exec.Cmd
	// Profile, if not nil, opens a file for the CPU profile of a measured part.
	Profile func() (io.WriteCloser, error)
	// Progress shows a person at a terminal how far a bench is.
	Progress *progress.Line
}

// Bench is one of them. Users and Seconds are what it takes where the options say 0.
type Bench struct {
	Name    string
	What    string
	Users   int
	Seconds float64
	Run     func(context.Context, *Options, *Result) error
}

// Run runs benches. What was measured until something went wrong is in the report beside the
// error.
func Run(ctx context.Context, o Options, benches ...Bench) (*Report, error) {
	r := &Report{At: time.Now().UTC().Truncate(time.Second), Machine: lookAtMachine(),
		Kafka: "the stand-in (kfake), in a process of its own on the same machine"}
	if len(o.Brokers) > 0 {
		r.Kafka = fmt.Sprint(o.Brokers)
	}
	if o.Users < 0 || o.Seconds < 0 || o.Partitions < 1 {
		return r, errors.New("users and seconds must not be negative, partitions must be positive")
	}
	for _, b := range benches {
		result, err := b.measure(ctx, o)
		r.Results = append(r.Results, result)
		if err != nil {
			return r, fmt.Errorf("bench %s: %w", b.Name, err)
		}
	}
	return r, nil
}

func (b *Bench) measure(ctx context.Context, o Options) (Result, error) {
	o.Given = o.Seconds != 0
	o.Users, o.Seconds = cmp.Or(o.Users, b.Users), cmp.Or(o.Seconds, b.Seconds)
	begun := time.Now()
	result := Result{Name: b.Name, What: b.What, Users: o.Users, Load: loadAverage()}
	o.Progress.Note("bench %s: %s (load average %.1f)", b.Name, b.What, result.Load)
	err := b.Run(ctx, &o, &result)
	o.Progress.Clear()
	result.Took = time.Since(begun).Seconds()
	return result, err
}

// Length is Seconds as a duration.
func (o *Options) Length() time.Duration { return time.Duration(o.Seconds * float64(time.Second)) }

// Measured runs the part that is measured, so that a profile shows nothing else.
func (o *Options) Measured(part func() error) (err error) {
	if o.Profile == nil {
		return part()
	}
	file, err := o.Profile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer pprof.StopCPUProfile()
	return part()
}

// Timeout bounds every wait of a bench.
const Timeout = 3 * time.Minute

// Until waits for something to become true, looking every millisecond. what says in the error
// and while waiting what that is.
func (o *Options) Until(ctx context.Context, what func() string, done func() bool) error {
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
			o.Progress.Say("  %s", what())
		case <-deadline.C:
			return fmt.Errorf("gave up after %s: %s", Timeout, what())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Pause waits, but not beyond the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
