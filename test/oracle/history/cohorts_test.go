package history

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

func TestDevicesThatWaitForHoursLeaveWhenTheyShouldAfterAGapOfTheLog(t *testing.T) {
	t.Parallel()
	h := &History{Settings: liveness.Defaults(), Partitions: 500}
	h.Settings.BreakerPercent, h.Settings.CohortTotalRate = 0, 1
	r := Record{Gateway: "a", Epoch: 10}
	for id := schemas.UserID(1); len(r.Rows) < 12; id++ {
		if schemas.PartitionOf(id, 500) == 0 {
			r.Rows = append(r.Rows, Row{User: id, Device: 1, Kind: schemas.Mobile})
		}
	}
	h.Records = append(h.Records, r)
	for i := range 1800 {
		after := int64(4000)
		if i == 20 {
			after = 600_000
		}
		h.Records = append(h.Records, Record{After: after, Tick: true})
	}
	want := oracle.Run(h.Log())
	for _, impl := range []Impl{Machine, RestartedAt(func(i int) bool { return i%150 == 0 })} {
		if got := impl(h.Log()); !slices.Equal(want, got) {
			t.Error(Difference(h, want, got))
		}
	}
	if n := len(want); n < 36 {
		t.Errorf("%d transitions, must be at least three of each user", n)
	}
}

func TestNobodyIsUnsureWhoIsHeardThroughAnOlderProcessOfAGateway(t *testing.T) {
	t.Parallel()
	h := &History{Settings: liveness.Defaults(), Partitions: 1}
	for range 60 {
		h.Records = append(h.Records, Record{After: 2500, Gateway: "g", Epoch: 10, Rows: []Row{{User: 1, Device: 1, Kind: schemas.Mobile}}},
			Record{After: 2500, Gateway: "g", Epoch: 20})
	}
	for _, unsure := range [][]oracle.Unsure{oracle.RunUnsure(h.Log()), Runs{}.Unsure(h.Log())} {
		for _, u := range unsure {
			t.Errorf("record %d of %d: unsure since %d", u.Offset, len(h.Records), u.Since-usualStart)
		}
	}
}
