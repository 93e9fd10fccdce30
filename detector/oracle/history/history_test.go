package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/detector/oracle/history"
)

func TestMachineDoesWhatTheOracleDoesOnRandomHistories(t *testing.T) {
	t.Parallel()
	seeds := uint64(3000)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		history.Compare(t, history.Machine, seed)
	}
}

func TestMachineDoesWhatTheOracleDoesOnHistoriesThatOnceWentWrong(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
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
		})
	}
}

func TestMachineRestartedAtAnyRecordDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		every := int(seed%9) + 1
		history.Compare(t, history.RestartedAt(func(i int) bool { return i%every == 0 }), seed)
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
		if fmt.Sprint(*again) != fmt.Sprint(*h) {
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
		history.CompareOn(t, history.Machine, history.FromBytes(bytes))
	})
}
