package main

import (
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// Options say what to simulate.
type Options struct {
	// Hours of virtual time, for every seed.
	Hours float64
	// Users of the partition.
	Users int
	// ShrinkFor bounds the search for a small case.
	ShrinkFor time.Duration
}

// Result is what came of a seed.
type Result struct {
	Seed        uint64
	Hours       float64
	Records     int
	Beats       int
	Restarts    int
	Transitions int
	Faults      map[string]int
	Took        float64
	// Difference is empty if the detector did what the rules say. Otherwise it shows the first
	// difference, and Case is a small history that has one.
	Difference string
	Case       string
}

// Run simulates a seed.
func Run(seed uint64, o Options) Result {
	return compare(seed, o, func(*history.History) history.Impl { return history.Machine }, history.Restarted)
}

// compare compares implementations with the oracle on the history of a seed.
func compare(seed uint64, o Options, impls ...func(*history.History) history.Impl) Result {
	begun := time.Now()
	h, faults := Make(seed, o.Hours, o.Users)
	r := Result{Seed: seed, Hours: o.Hours, Records: len(h.Records), Faults: faults}
	for i := range h.Records {
		r.Beats += len(h.Records[i].Rows)
		if h.Records[i].Restart {
			r.Restarts++
		}
	}
	want := on(h, oracle.Run)
	r.Transitions = len(want)
	for _, impl := range impls {
		if got := on(h, impl(h)); !slices.Equal(want, got) {
			small := shrink(h, o.ShrinkFor, impl)
			r.Difference = history.Difference(small, on(small, oracle.Run), on(small, impl(small)))
			r.Case = small.String()
			break
		}
	}
	r.Took = time.Since(begun).Seconds()
	return r
}

// on are the transitions that impl makes of h.
func on(h *history.History, impl history.Impl) []schemas.Transition {
	return impl(h.Log())
}
