package history

import (
	"slices"
	"strconv"
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

func TestAUserStaysUnsureWhenFramesNoLongerContinueTheLifeOfADrainedGateway(t *testing.T) {
	t.Parallel()
	h := &History{Settings: liveness.Defaults(), Partitions: 1}
	h.Records = []Record{{Gateway: "g", Epoch: 10, Draining: true, Rows: []Row{{User: 1, Device: 1, Kind: schemas.Mobile}}}}
	for i := range 26 { // a bye of a device that is not present has the status judged
		h.Records = append(h.Records, Record{After: 4000, Gateway: "g", Epoch: 10, Draining: i < 12,
			Rows: []Row{{User: 1, Device: 2, Kind: schemas.Mobile, Bye: true}}})
	}
	h = owned(h)
	for _, unsure := range [][]oracle.Unsure{oracle.RunUnsure(h.Log()), Runs{}.Unsure(h.Log())} {
		want := []oracle.Unsure{{User: 1, Offset: 23, Since: usualStart}, {User: 1, Offset: 37}}
		if !slices.Equal(unsure, want) {
			t.Errorf("unsure %+v, must be %+v", unsure, want)
		}
	}
}

// ofManyGateways is the history of one of 512 partitions in which a quarter of the gateways are lost at once.
func ofManyGateways(partition int32) *History {
	const gateways, usersEach, partitions = 40, 5, 512
	h := &History{Settings: liveness.Defaults(), Partition: partition, Partitions: partitions}
	rows := make([][]Row, gateways)
	for id, n := schemas.UserID(1), 0; n < gateways*usersEach; id++ {
		if schemas.PartitionOf(id, partitions) == partition {
			rows[n%gateways] = append(rows[n%gateways], Row{User: id, Device: 1, Kind: schemas.Mobile})
			n++
		}
	}
	const step = 125 // milliseconds between two records, so that each gateway is heard every 5 s
	for i := range 200_000 / step {
		g := i % gateways
		if i*step > 40_000 && g%4 == 0 {
			h.Records = append(h.Records, Record{After: step, Tick: true})
			continue
		}
		r := Record{After: step, Gateway: "gw-" + strconv.Itoa(g), Epoch: 10}
		if i/gateways%3 == 0 {
			r.Rows = rows[g]
		}
		h.Records = append(h.Records, r)
	}
	return h
}

func TestAQuarterOfTheGatewaysOf512PartitionsIsLostAndAKillChangesNothing(t *testing.T) {
	t.Parallel()
	for _, partition := range []int32{0, 255, 511} {
		h := ofManyGateways(partition)
		want := oracle.Run(h.Log())
		lost := 0
		for i := range want {
			if want[i].Cause == schemas.GatewayLost && want[i].To == schemas.Away {
				lost++
			}
		}
		if lost != 50 {
			t.Errorf("partition %d: %d users of lost gateways left, must be 50", partition, lost)
		}
		kills := []Impl{Machine}
		for seconds := 41; seconds < 150; seconds += 9 { // before and after the loss, the plan, and while users leave
			kills = append(kills, RestartedAt(func(i int) bool { return i == seconds*8 }))
		}
		for i, impl := range kills {
			if got := impl(h.Log()); !slices.Equal(want, got) {
				t.Errorf("partition %d, kill %d: %s", partition, i, Difference(h, want, got)[:600])
			}
		}
	}
}
