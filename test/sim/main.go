package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := Options{}
	seed := flag.Uint64("seed", 1, "seed; the same seed gives the same simulation on every machine")
	seeds := flag.String("seeds", "", "range of seeds FROM-TO instead of -seed; the run ends at the first difference")
	flag.Float64Var(&o.Hours, "hours", 24, "virtual hours per seed")
	flag.IntVar(&o.Users, "users", 20, "users of the partition")
	flag.DurationVar(&o.ShrinkFor, "shrink", time.Minute, "time to search for a smaller failing case")
	flag.Parse()
	from, to, err := *seed, *seed, error(nil)
	if *seeds != "" {
		from, to, err = span(*seeds)
	}
	if err != nil || flag.NArg() > 0 || o.Hours <= 0 || o.Users < 1 {
		fmt.Fprintln(os.Stderr, "sim: -seeds must be FROM-TO, e.g. 1-1000; -hours and -users must be positive")
		flag.Usage()
		os.Exit(2)
	}
	for seed := from; ctx.Err() == nil; seed++ {
		r := Run(seed, o)
		if r.Difference != "" {
			fmt.Print(r.Case)
			fmt.Fprintf(os.Stderr, "seed %d: the detector does not do what the rules require, %s"+
				"Store the case on standard output under test/oracle/history/testdata. To repeat it: go run ./test/sim -seed %d -hours %g -users %d\n",
				seed, r.Difference, seed, o.Hours, o.Users)
			os.Exit(1)
		}
		fmt.Println(r)
		if seed == to {
			return
		}
	}
	os.Exit(1)
}

// span is the first and the last seed of FROM-TO.
func span(seeds string) (from, to uint64, err error) {
	first, last, _ := strings.Cut(seeds, "-")
	if from, err = strconv.ParseUint(first, 10, 64); err != nil {
		return 0, 0, err
	}
	if to, err = strconv.ParseUint(last, 10, 64); err == nil && to < from {
		err = fmt.Errorf("%d is before %d", to, from)
	}
	return from, to, err
}

// String is a line about a seed without a difference.
func (r Result) String() string {
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	return fmt.Sprintf("seed %-6d %g h  %d records, %d beats, %d faults, %d restarts, %d transitions, as the rules require  (%.1f s)",
		r.Seed, r.Hours, r.Records, r.Beats, faults, r.Restarts, r.Transitions, r.Took)
}
