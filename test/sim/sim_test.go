package sim

import (
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// What TestTheDetectorDoesWhatTheRulesSayInHoursOfFaults simulates:
//
//	go test ./test/sim -run TestTheDetector -v -sim.seed 42 -sim.seeds 1 -sim.hours 24 -sim.users 20
var (
	simSeed  = flag.Uint64("sim.seed", 0, "the first seed; the same seed gives the same simulation on every machine")
	simSeeds = flag.Uint64("sim.seeds", 8, "how many seeds, one after the other")
	simHours = flag.Float64("sim.hours", 0.5, "virtual hours for each seed")
	simUsers = flag.Int("sim.users", 12, "users of the partition")
)

func TestTheDetectorDoesWhatTheRulesSayInHoursOfFaults(t *testing.T) {
	t.Parallel()
	for seed := *simSeed; seed < *simSeed+*simSeeds; seed++ {
		h, faults := Make(seed, *simHours, *simUsers)
		for _, impl := range []func(*history.History) history.Impl{
			func(*history.History) history.Impl { return history.Machine }, history.Restarted,
		} {
			if small, difference := compare(h, time.Minute, impl); difference != "" {
				t.Fatalf("seed %d: the detector does not do what the rules require, %s. Store this case under test/oracle/history/testdata:\n%s",
					seed, difference, small)
			}
		}
		transitions := len(on(h, oracle.Run))
		if t.Logf("seed %d: %d records, %v, %d transitions, as the rules require", seed, len(h.Records), faults, transitions); transitions == 0 {
			t.Errorf("seed %d: nothing happened", seed)
		}
	}
}

// compare tells how impl differs from the oracle on a small history that it looks for in h.
func compare(h *history.History, limit time.Duration, impl func(*history.History) history.Impl) (small *history.History, difference string) {
	if slices.Equal(on(h, oracle.Run), on(h, impl(h))) {
		return nil, ""
	}
	small = shrink(h, limit, impl)
	return small, history.Difference(small, on(small, oracle.Run), on(small, impl(small)))
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
	h, _ := Make(3, 0.5, 5)
	small, difference := compare(h, 20*time.Second, forgetful)
	if !strings.Contains(difference, "silent") {
		t.Fatalf("the difference is told as %q", difference)
	}
	if again, err := history.Parse([]byte(small.String())); err != nil || len(again.Records) > 20 || len(again.Records) == 0 {
		t.Errorf("the case is %s (%v)", small, err)
	}
}
