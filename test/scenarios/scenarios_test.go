package scenarios

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

func TestOraclePlaysTheScenarios(t *testing.T) {
	t.Parallel()
	run(t, oracle.Run)
}

func TestMachinePlaysTheScenarios(t *testing.T) {
	t.Parallel()
	run(t, history.Machine)
}

// Stamps of 32 bits wrap every 2³² ms; that of 2026-11-21 21:25:29.728 UTC is one of them.
const wrap = schemas.Millis(418) << 32

func TestMachinePlaysTheScenariosAtAnyInstant(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]schemas.Millis{
		"long ago": 1_000_000_000, "just before a wrap": wrap - 20_000, "at a wrap": wrap, "first half": wrap + 5*86_400_000, "at the half": wrap + 1<<31 - 20_000,
		"second half": wrap + 30*86_400_000, "today": schemas.MillisOf(time.Now()), "in ten years": wrap + 10*365*86_400_000,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, from(begin, history.RestartedAt(func(i int) bool { return i%97 == 0 })))
		})
	}
}

func TestMachineRestartedEveryTenSecondsPlaysTheScenarios(t *testing.T) {
	t.Parallel()
	run(t, history.RestartedAt(func(i int) bool { return i%40 == 0 }))
}
