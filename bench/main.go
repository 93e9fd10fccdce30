// Command bench measures how fast Stillhere is in the laboratory, next to peers where there are
// any, by commands that anyone can run from a checkout:
//
//	go run ./bench NAME [flags]
//
// # Flow
//
//	main ─▶ loadtest.Flags.Measure ─▶ liveness │ detector │ pipeline │ live │ … ─▶ Report (output.Write)
//	              │
//	              └─ Kafka: --brokers, or a stand-in in another process (loadtest.Rig)
//
// One file per bench; each says what it measures and what it leaves out. What the clients of a
// bench cost shares the machine with what is measured; where that matters, the processor time
// of each process is a figure of its own.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/tools/loadtest"
)

// lab is the command line.
type lab struct {
	Name string `arg:"" help:"Which bench: ${names}, or all."`
	loadtest.Flags
	Postgres   string `help:"Postgres to measure on. Bench sink makes databases there and drops them, and starts a private server when it is left out; bench fanout keeps its graph there for the next run, in SQLite when it is left out."`
	Sockets    int    `help:"Bench live: how many sockets watch one user." default:"100000"`
	BrokerPIDs []int  `name:"broker-pids" help:"Bench broker: the process ids of all brokers, which must be on this machine."`
	Gateways   int    `help:"Bench held: how many gateways share the users." default:"100"`
	PerProcess int    `help:"Bench live: how many sockets a process holds; it needs as many open files (ulimit -n), and 1,000 more." default:"18000"`
}

// benches are all of them, in the order in which they run.
func (l *lab) benches() []loadtest.Bench {
	return []loadtest.Bench{
		{Name: "liveness", What: "the state machine without Kafka, one core", Seconds: 3, Run: benchLiveness},
		{Name: "detector", What: "heartbeats from Kafka through the detector", Users: 1_000_000, Seconds: 4, Run: benchDetector},
		loadtest.Pipeline,
		{Name: "live", What: "from a beat to the frame on the sockets of those who watch", Users: 5_000, Seconds: 20, Run: l.live},
		{Name: "held", What: "connections that gateways hold, against heartbeats", Users: 1_000_000, Seconds: 60, Run: l.held},
		{Name: "silence", What: "all users fall silent at once: how late each is found", Users: 1_000_000, Seconds: 6, Run: silence},
		{Name: "rebuild", What: "Redis loses everything: time until answers are fresh, and what is answered meanwhile", Users: 1_000_000, Run: rebuild},
		{Name: "reads", What: "the states of fifty users in one request of the API", Users: 100_000, Seconds: 5, Run: reads},
		{Name: "replay", What: "transitions from the topic into files for data teams", Users: 1_000_000, Run: benchReplay},
		{Name: "sink", What: "transitions from the topic into Postgres, against psql", Users: 1_000_000, Run: l.sink},
		{Name: "restore", What: "a partition's owner is replaced: time until it runs again", Users: 1_000_000, Run: restore},
		{Name: "broker", What: "processor time of Kafka's brokers for small batches, and for bytes", Seconds: 15, Run: l.broker},
		{Name: "fanout", What: "from a change to delivery records for the followers of one user with many", Users: 1_000_000, Seconds: 5, Run: l.fanout},
	}
}

// processes are what benches start in other processes of this program.
var processes = map[string]func(io.Writer, io.Reader) error{
	"serve": loadtest.Serve, "node": node, "viewers": watch, "writer": write, "gateways": gateways}

func main() {
	if len(os.Args) == 2 && processes[os.Args[1]] != nil {
		if err := processes[os.Args[1]](os.Stdout, os.Stdin); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		return
	}
	var l lab
	var names []string
	for _, b := range l.benches() {
		names = append(names, b.Name)
	}
	cli := kong.Parse(&l, kong.Description("Measure how fast Stillhere is in the laboratory."), kong.Vars{"names": strings.Join(names, ", ")},
		kong.PostBuild(func(k *kong.Kong) error {
			for _, flag := range k.Model.Flags {
				flag.Envs, flag.Tag.Envs = nil, nil // "-" is for the main program
			}
			return nil
		}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cli.FatalIfErrorf(l.run(ctx))
}

// chosen returns the benches that the command line names.
func (l *lab) chosen() ([]loadtest.Bench, error) {
	benches := l.benches()
	if i := slices.IndexFunc(benches, func(b loadtest.Bench) bool { return b.Name == l.Name }); i >= 0 {
		return benches[i : i+1], nil
	}
	if l.Name != "all" {
		return nil, fmt.Errorf("there is no bench %q: go run ./bench --help lists them", l.Name)
	}
	return benches, nil
}

func (l *lab) run(ctx context.Context) error {
	benches, err := l.chosen()
	if err != nil {
		return err
	}
	return l.Measure(ctx, "from a checkout", nil, benches...)
}
