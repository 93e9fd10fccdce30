package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/stillhere/stillhere/tools/progress"
)

// Options say how to measure.
type Options struct {
	// Users is how many there are; 0: as many as the bench's target names.
	Users int
	// Seconds is how long the measured part lasts, as near as the bench can; 0:
	// what it takes to get steady figures.
	Seconds float64
	given   bool // Seconds was not left out
	// Partitions of the heartbeats topic.
	Partitions int32
	// Brokers is the Kafka to measure on; none: the stand-in, in another process.
	Brokers []string
	// Redis is the address of an empty Redis to measure the reference on; empty: no
	// reference.
	Redis string
	// Postgres is the URL of a database for the follower graph, which stays there, and
	// of a server for the sink's databases, which are dropped; empty: SQLite in a folder
	// of its own, and a private server from the installed binaries.
	Postgres string
	// Cluster makes the command that runs Serve in another process.
	Cluster func(context.Context) *exec.Cmd
	// Tool makes the command that runs Watch ("watchers") or Node ("node") in another
	// process.
	Tool func(ctx context.Context, name string) *exec.Cmd
	// Sockets is how many watch one user in the bench of the stream; 0: as many as
	// the target names.
	Sockets int
	// Profile, if not nil, opens a file for the CPU profile of a measured part.
	Profile func() (io.WriteCloser, error)
	// Progress is told what is going on.
	Progress *progress.Line
}

// Bench is one of them.
type Bench struct {
	Name    string
	What    string
	users   int
	seconds float64
	run     func(context.Context, *Options, *Result) error
}

// All are the benches, in the order in which they run.
var All = []Bench{
	{"liveness", "the state machine alone, one core", 0, 3, benchLiveness},
	{"detector", "heartbeats from Kafka through the detector", 1_000_000, 4, benchDetector},
	{"pipeline", "from a beat to the committed transition and the answer of the API", 50_000, 10, benchPipeline},
	{"live", "from a beat to the frame on the sockets of those who watch", 5_000, 20, benchLive},
	{"silence", "all users fall silent at once: how late each is found", 1_000_000, 6, benchSilence},
	{"rebuild", "Redis loses everything: time until answers are fresh, and what is answered meanwhile", 1_000_000, 0, benchRebuild},
	{"reads", "the states of fifty users in one request of the API", 100_000, 5, benchReads},
	{"replay", "transitions from the topic into files for data teams", 1_000_000, 0, benchReplay},
	{"sink", "transitions from the topic into Postgres, against psql", 1_000_000, 0, benchSink},
	{"restore", "a partition's owner is replaced: time until it runs again", 1_000_000, 0, benchRestore},
	{"fanout", "from a change to delivery records for the followers of one user with many", 1_000_000, 5, benchFanout},
}

// Run runs one bench, or "all". What was measured until something went wrong is in
// the report beside the error.
func Run(ctx context.Context, name, version string, o Options) (*Report, error) {
	if o.Users < 0 || o.Sockets < 0 || o.Seconds < 0 || o.Partitions < 1 {
		return nil, errors.New("users, sockets and seconds must not be negative, partitions must be positive")
	}
	r := &Report{Version: version, At: time.Now().UTC().Truncate(time.Second), Machine: lookAtMachine(), Kafka: o.kafkaName()}
	if o.Redis != "" {
		info, err := lookAtRedis(ctx, o.Redis)
		if err != nil {
			return nil, err
		}
		r.Redis = info
	}
	i := slices.IndexFunc(All, func(b Bench) bool { return b.Name == name })
	benches := All
	switch {
	case i >= 0:
		benches = All[i : i+1]
	case name != "all":
		return nil, fmt.Errorf("there is no bench %q", name)
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
	if o.Users == 0 {
		o.Users = b.users
	}
	if o.Sockets == 0 {
		o.Sockets = 100_000
	}
	o.given = o.Seconds != 0
	if !o.given {
		o.Seconds = b.seconds
	}
	begun := time.Now()
	result := Result{Name: b.Name, What: b.What, Users: o.Users, Load: loadAverage()}
	o.Progress.Note("bench %s: %s (load average %.1f)", b.Name, b.What, result.Load)
	err := b.run(ctx, &o, &result)
	o.Progress.Clear()
	result.Took = time.Since(begun).Seconds()
	return result, err
}

func (o *Options) length() time.Duration { return time.Duration(o.Seconds * float64(time.Second)) }

// measured is put around what is measured, so that a profile shows nothing else.
func (o *Options) measured(part func() error) (err error) {
	if o.Profile == nil {
		return part()
	}
	file, err := o.Profile()
	if err != nil {
		return err
	}
	defer func() { err = joined(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("profiling: %w", err)
	}
	defer pprof.StopCPUProfile()
	return part()
}

func (o *Options) kafkaName() string {
	if len(o.Brokers) > 0 {
		return fmt.Sprintf("%v", o.Brokers)
	}
	return "the stand-in (kfake), in a process of its own on the same machine"
}
