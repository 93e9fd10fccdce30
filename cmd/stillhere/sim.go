package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
	"github.com/stillhere/stillhere/tools/sim"
)

// simCommand runs the detector through hours of faults and compares it with its
// oracle.
type simCommand struct {
	Seed   uint64        `help:"Seed; the same seed gives the same simulation on every machine." default:"1" env:"-"`
	Seeds  string        `help:"Range of seeds instead of --seed; the run ends at the first difference." placeholder:"FROM-TO" env:"-"`
	Hours  float64       `help:"Virtual hours per seed." default:"24" env:"-"`
	Users  int           `help:"Users of the partition." default:"20" env:"-"`
	Shrink time.Duration `help:"Time to search for a smaller failing case." default:"1m" env:"-"`
	outputFlag
	JSON bool `name:"json" hidden:"" instead:"--output jsonl" env:"-"`
}

// Help is shown above the flags.
func (*simCommand) Help() string {
	return "One partition of the detector processes hours of users, gateways and faults, and must publish what the rules require, restarted or not. " +
		"The whole pipeline, every role as a process of its own with faults in every minute, is simulated by a test, because virtual time for all " +
		"of it exists only there: go test -tags synctests ./test/virtual -run TestSimulatedHours -v -sim.seed N -sim.hours H"
}

// Validate is called by the parser.
func (c *simCommand) Validate() error {
	if c.JSON {
		c.Output = output.JSONL
	}
	if c.Hours <= 0 || c.Users < 1 {
		return errors.New("--hours and --users must be positive")
	}
	_, _, err := c.span()
	return err
}

// span is the first and the last seed.
func (c *simCommand) span() (from, to uint64, err error) {
	if c.Seeds == "" {
		return c.Seed, c.Seed, nil
	}
	first, last, ok := strings.Cut(c.Seeds, "-")
	from, errFrom := strconv.ParseUint(first, 10, 64)
	to, errTo := strconv.ParseUint(last, 10, 64)
	if !ok || errFrom != nil || errTo != nil || to < from {
		return 0, 0, fmt.Errorf("--seeds: %q must be FROM-TO, e.g. 1-1000", c.Seeds)
	}
	return from, to, nil
}

// Run simulates.
func (c *simCommand) Run(ctx context.Context) error {
	from, to, err := c.span()
	if err != nil {
		return err
	}
	line := progress.Stderr()
	defer line.Clear()
	rows, err := c.writer()
	if err != nil {
		return err
	}
	total := sim.Result{}
	for seed := from; ; seed++ {
		line.Say("seed %d of %d to %d: %.0f virtual hours done", seed, from, to, total.Hours)
		r := sim.Run(seed, sim.Options{Hours: c.Hours, Users: c.Users, ShrinkFor: c.Shrink})
		line.Clear()
		if err := rows.Write(r); err != nil {
			return err
		}
		if r.Difference != "" {
			return errors.Join(rows.Close(), c.differs(&r))
		}
		if err := rows.Flush(); err != nil {
			return err
		}
		total.Hours += r.Hours
		total.Beats += r.Beats
		total.Transitions += r.Transitions
		total.Restarts += r.Restarts
		if seed == to || ctx.Err() != nil {
			break
		}
	}
	if from != to && c.Output == output.TableFormat {
		line.Clear()
		fmt.Printf("no differences in %.0f virtual hours: %d beats, %d restarts, %d transitions\n", total.Hours, total.Beats, total.Restarts, total.Transitions)
	}
	return errors.Join(rows.Close(), ctx.Err())
}

// simWriter takes the result of each seed.
type simWriter interface {
	Write(sim.Result) error
	Flush() error
	Close() error
}

func (c *simCommand) writer() (simWriter, error) {
	if c.Output == output.TableFormat {
		return simLines{}, nil
	}
	return output.NewWriter(os.Stdout, c.Output, sim.Columns, itself)
}

// simLines prints a line for people for each seed without a difference.
type simLines struct{}

func (simLines) Flush() error { return nil }

func (simLines) Close() error { return nil }

// Write prints.
func (simLines) Write(r sim.Result) error {
	if r.Difference != "" {
		return nil
	}
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	_, err := fmt.Printf("seed %-6d %g h  %d records, %d beats, %d faults, %d restarts, %d transitions, as the rules require  (%.1f s)\n",
		r.Seed, r.Hours, r.Records, r.Beats, faults, r.Restarts, r.Transitions, r.Took)
	return err
}

func (c *simCommand) differs(r *sim.Result) error {
	if c.Output == output.TableFormat {
		fmt.Print(r.Case)
	}
	return fmt.Errorf("seed %d: the detector does not do what the rules require, %s"+
		"Store the case on standard output under detector/oracle/history/testdata. To repeat it: stillhere sim --seed %d --hours %g --users %d",
		r.Seed, r.Difference, r.Seed, c.Hours, c.Users)
}
