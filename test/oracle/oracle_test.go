package oracle_test

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

const start = schemas.Millis(1_763_700_000_000)

func TestARecordThatSaysTooMuchOfOneUserStopsNothing(t *testing.T) {
	t.Parallel()
	// Each row is idle for a millisecond less than idle_after, and a millisecond
	// after the row before: two transitions a row.
	rows := make([]schemas.Beat, schemas.MaxFrameRows)
	for i := range rows {
		rows[i] = schemas.Beat{User: 1, Device: 1, Kind: schemas.Mobile, Age: schemas.Millis(len(rows) - i), Idle: 299_999}
	}
	rows[len(rows)-1].User = 2
	policy := liveness.Defaults()
	policy.FlapBurst = 0
	policy.AllowedLateness = 5 * time.Second // no row is over
	got := oracle.Transitions(policy, 0, 1, 1, []schemas.Record{
		{Offset: 0, Time: start, Value: schemas.AppendFrame(nil, schemas.FrameHead{}, rows)},
		{Offset: 1, Time: start + 6000, Value: schemas.AppendTick(nil)},
	})
	of := map[schemas.UserID]int{}
	for _, tr := range got {
		if tr.Version.Offset() == 0 {
			of[tr.User]++
		}
	}
	// One row begins with 3,999 caused and causes two.
	if of[1] != 4001 || of[2] != 1 {
		t.Errorf("the record caused %d transitions of user 1 and %d of user 2, want 4001 and 1", of[1], of[2])
	}
	if last := got[len(got)-1]; last.To != schemas.Away || last.Version.Offset() != 1 {
		t.Errorf("the last is %+v, want what was due after it", last)
	}
}

func TestRowsOfAnotherPartitionAreSkipped(t *testing.T) {
	t.Parallel()
	var mine, others schemas.UserID
	for id := schemas.UserID(1); mine == 0 || others == 0; id++ {
		if schemas.PartitionOf(id, 12) == 5 {
			mine = id
		} else {
			others = id
		}
	}
	rows := []schemas.Beat{{User: others, Device: 1}, {User: mine, Device: 1}}
	got := oracle.Transitions(liveness.Defaults(), 5, 12, 7, []schemas.Record{
		{Offset: 3, Time: start, Value: schemas.AppendFrame(nil, schemas.FrameHead{}, rows)},
		{Offset: 4, Time: start, Value: schemas.AppendVisibility(nil, others, schemas.Nobody)},
	})
	if len(got) != 1 || got[0].User != mine || got[0].Version != schemas.NewVersion(7, 3, 0) {
		t.Errorf("got %+v, want one transition of user %d by record 3 of log epoch 7", got, mine)
	}
}
