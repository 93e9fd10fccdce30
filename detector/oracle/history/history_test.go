package history_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/detector/oracle/history"
)

// seeds are the first n, or those of STILLHERE_TEST_SEEDS=FROM-TO.
func seeds(t *testing.T, n uint64) iter.Seq[uint64] {
	from, to := uint64(0), n
	if testing.Short() {
		to = n / 10
	}
	if text := os.Getenv("STILLHERE_TEST_SEEDS"); text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &from, &to); err != nil {
			t.Fatalf("STILLHERE_TEST_SEEDS=%s: must be FROM-TO: %v", text, err)
		}
	}
	return func(yield func(uint64) bool) {
		for seed := from; seed < to && yield(seed); seed++ {
		}
	}
}

func TestMachineDoesWhatTheOracleDoesOnRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 3000) {
		history.Compare(t, history.Machine, seed)
	}
}

func TestMachineThatLosesItsLogDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 1000) {
		history.CompareOn(t, history.Machine, history.WithLosses(history.FromSeed(seed), seed))
	}
}

func TestMachineKilledAnywhereWhileItLosesItsLogDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 400) {
		history.CompareOn(t, killed(seed).Run, history.WithLosses(history.FromSeed(seed), seed))
	}
}

func TestMachineKilledBetweenSlicesDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 500) {
		runs := killed(seed)
		runs.Restart = nil
		history.Compare(t, runs.Run, seed)
	}
}

// killed is a detector with small slices that is killed at some records and slices.
func killed(seed uint64) history.Runs {
	records, slices := int(seed%9)+1, int(seed/9%5)+1
	return history.Runs{Slice: 1 + int(seed%4), Restart: func(i int) bool { return i%records == 0 }, Cut: func(n int) bool { return n%slices == 0 }}
}

func TestMachineThatPutsOutInSlicesDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 300) {
		history.Compare(t, history.Runs{Slice: 1 + int(seed%3)}.Run, seed)
	}
}

func TestMachineRestartedAtAnyRecordDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 300) {
		every := int(seed%9) + 1
		history.Compare(t, history.RestartedAt(func(i int) bool { return i%every == 0 }), seed)
	}
}

func TestMachineDoesWhatTheOracleDoesOnHistoriesThatOnceWentWrong(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("%d histories are kept, must be at least 5", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := history.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			history.CompareOn(t, history.Machine, h)
			history.CompareOn(t, history.RestartedAt(func(int) bool { return true }), h)
			history.CompareOn(t, history.Runs{Slice: 1, Cut: func(int) bool { return true }}.Run, h)
		})
	}
}

func TestAHistoryReadsBackFromItsText(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h := history.FromSeed(seed)
		again, err := history.Parse([]byte(h.String()))
		if err != nil {
			t.Fatal(err)
		}
		if again.String() != h.String() || len(again.Records) != len(h.Records) {
			t.Fatalf("seed %d: read back as\n%s", seed, again)
		}
	}
}

func FuzzMachineDoesWhatTheOracleDoes(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) > 4000 {
			t.Skip("long histories are slow and find no more")
		}
		h := history.FromBytes(bytes)
		history.CompareOn(t, history.Machine, h)
		seed := uint64(len(bytes))
		history.CompareOn(t, killed(seed).Run, history.WithLosses(h, seed))
	})
}
