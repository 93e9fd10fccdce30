package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

func TestTheDetectorDoesWhatTheRulesSayInHoursOfFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := Run(seed, Options{Hours: 0.5, Users: 12, ShrinkFor: 10 * time.Second})
		if r.Difference != "" {
			t.Errorf("seed %d: %s\n%s", seed, r.Difference, r.Case)
		}
		if r.Transitions == 0 || r.Beats == 0 {
			t.Errorf("seed %d: nothing happened: %+v", seed, r)
		}
	}
}

func TestASeedStandsForOneHistory(t *testing.T) {
	t.Parallel()
	one, _ := Make(7, 0.2, 5)
	again, _ := Make(7, 0.2, 5)
	other, _ := Make(10, 0.2, 5)
	if !reflect.DeepEqual(one, again) {
		t.Error("the same seed made two histories")
	}
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds made the same history")
	}
}

func TestEveryFaultIsDrawnAndTheDetectorIsRestarted(t *testing.T) {
	t.Parallel()
	all := map[string]int{}
	restarts := 0
	for seed := range uint64(4) {
		h, faults := Make(seed, 1, 5)
		for name, n := range faults {
			all[name] += n
		}
		for i := range h.Records {
			if h.Records[i].Restart || h.Records[i].Lose != "" {
				restarts++
			}
		}
	}
	if len(all) != 17 || restarts == 0 {
		t.Errorf("%d kinds of faults, %d restarts: %v", len(all), restarts, all)
	}
}

func TestAnImplementationThatIsWrongIsFoundAndItsHistoryCutDown(t *testing.T) {
	t.Parallel()
	forgetful := func(h *history.History) history.Impl {
		return func(log oracle.Log) []schemas.Transition {
			all := history.Machine(log)
			var kept []schemas.Transition
			for _, tr := range all {
				if tr.Cause != schemas.Silent {
					kept = append(kept, tr)
				}
			}
			return kept
		}
	}
	r := compare(3, Options{Hours: 0.5, Users: 5, ShrinkFor: 20 * time.Second}, forgetful)
	if !strings.Contains(r.Difference, "silent") {
		t.Fatalf("the difference is told as %q", r.Difference)
	}
	small, err := history.Parse([]byte(r.Case))
	must.Do(t, err)
	if len(small.Records) > 20 || len(small.Records) == 0 {
		t.Errorf("the case has %d records", len(small.Records))
	}
}
