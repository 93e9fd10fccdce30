package history

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
)

func TestMachineDoesWhatTheOracleDoesOnARecordThatSaysTooMuchOfOneUser(t *testing.T) {
	t.Parallel()
	h := &History{Settings: liveness.Defaults(), Partitions: 1}
	h.Settings.FlapBurst, h.Settings.AllowedLateness = 0, 5*time.Second // no row is over
	rows := make([]Row, 4000)
	for i := range rows {
		rows[i] = Row{User: 1, Device: 1, Kind: 1, Age: int64(4000 - i), Idle: 299_999}
	}
	h.Records = []Record{{After: 1000, Rows: rows}, {After: 5500, Tick: true}, {After: 500, Tick: true}}
	compareOn(t, Machine, h)
	compareOn(t, RestartedAt(func(int) bool { return true }), h)
}
