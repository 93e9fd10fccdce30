package scenarios_test

import (
	"testing"

	"github.com/stillhere/stillhere/detector/oracle"
	"github.com/stillhere/stillhere/detector/oracle/history"
	"github.com/stillhere/stillhere/detector/scenarios"
)

func TestOraclePlaysTheScenarios(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, oracle.Transitions)
}

func TestMachinePlaysTheScenarios(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, history.Machine)
}

func TestMachineRestartedEveryTenSecondsPlaysTheScenarios(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, history.RestartedAt(func(i int) bool { return i%40 == 0 }))
}
