package history_test

import (
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/detector/oracle/history"
)

func TestMachineDoesWhatTheOracleDoesOnARecordThatSaysTooMuchOfOneUser(t *testing.T) {
	t.Parallel()
	h := &history.History{Settings: liveness.Defaults(), Partitions: 1}
	h.Settings.FlapBurst = 0
	rows := make([]history.Row, 4000)
	for i := range rows {
		rows[i] = history.Row{User: 1, Device: 1, Kind: 1, Age: int64(4000 - i), Idle: 299_999}
	}
	h.Records = []history.Record{{After: 1000, Rows: rows}, {After: 500, Tick: true}, {After: 500, Tick: true}}
	history.CompareOn(t, history.Machine, h)
	history.CompareOn(t, history.RestartedAt(func(int) bool { return true }), h)
}
