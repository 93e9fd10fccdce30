package history

import (
	"testing"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// script writes a log whose time another gateway makes go on.
type script struct{ h *History }

func newScript() *script {
	s := &script{&History{Settings: liveness.Defaults(), Partitions: 1}}
	s.other()
	return s
}

func (s *script) other() {
	s.h.Records = append(s.h.Records, Record{After: 500, Gateway: "b", Epoch: 10,
		Rows: []Row{{User: 9, Device: 1, Kind: schemas.Mobile}}})
}

// lasts lets time pass: the partition has an owner that keeps up, one that is behind, or none.
func (s *script) lasts(ms int, owner string) *script {
	for at := 500; at <= ms; at += 500 {
		if s.other(); owner != "" {
			s.add(Record{Tick: true, Behind: owner == "behind"})
		}
	}
	return s
}

func (s *script) add(r Record) *script {
	s.h.Records = append(s.h.Records, r)
	return s
}

func (s *script) connects() *script {
	return s.add(Record{Gateway: "a", Epoch: 10, Rows: []Row{{User: 1, Device: 1, Kind: schemas.Mobile, Connection: 5}}})
}

func (s *script) leased() *script { return s.add(Record{Gateway: "a", Epoch: 10, Leased: true}) }

func (s *script) stays(t *testing.T) {
	t.Helper()
	compareOn(t, Machine, s.h)
	for _, tr := range oracle.Run(s.h.Log()) {
		if tr.User == 1 && tr.From != schemas.Offline {
			t.Error(Describe(s.h, tr))
		}
	}
}

func (s *script) leaves(t *testing.T) {
	t.Helper()
	compareOn(t, Machine, s.h)
	for _, tr := range oracle.Run(s.h.Log()) {
		if tr.User == 1 && tr.To == schemas.Offline {
			return
		}
	}
	t.Error("user 1 is online for ever")
}

func TestConnectionsStayThatOpenedBeforeADetectorThatWasKilledWhileItCaughtUp(t *testing.T) {
	t.Parallel()
	newScript().lasts(20_000, "keeps up").lasts(1000, "").connects().lasts(100_000, "").
		add(Record{Tick: true}).lasts(60_000, ""). // is back, writes a tick, and is killed before it has read the log
		lasts(1000, "keeps up").leased().lasts(120_000, "keeps up").stays(t)
}

func TestDevicesOfADeadGatewayLeaveAlthoughTheOwnerLagsForGood(t *testing.T) {
	t.Parallel()
	newScript().lasts(20_000, "keeps up").connects().leased().lasts(5000, "keeps up").
		add(Record{Gateway: "a", Epoch: 10, LeaseEnded: 4000}).lasts(3_600_000, "behind").leaves(t)
}

func TestConnectionsStayThatOpenedBeforeTheFirstDetectorRan(t *testing.T) {
	t.Parallel()
	newScript().connects().lasts(100_000, "").lasts(1000, "keeps up").leased().lasts(120_000, "keeps up").stays(t)
}

func TestConnectionsStayWhoseDetectorIsKilledAgainAndAgainBeforeItKeepsUp(t *testing.T) {
	t.Parallel()
	newScript().lasts(20_000, "keeps up").lasts(1000, "").connects().lasts(100_000, "behind").
		lasts(1000, "keeps up").leased().lasts(120_000, "keeps up").stays(t)
}

// As with the first start of a version that cannot read the snapshot of the one before.
func TestConnectionsStayThatOpenedBeforeALossyRestart(t *testing.T) {
	t.Parallel()
	s := newScript().lasts(20_000, "keeps up")
	s.h.Records = append(s.h.Records, Record{After: 500, Lose: LostLog, Gateway: "b", Epoch: 10})
	s.lasts(1000, "").connects().lasts(100_000, "").lasts(1000, "keeps up").leased().lasts(120_000, "keeps up").stays(t)
}

// Every 15 s the owner lags for 6 s.
func TestDevicesOfADeadGatewayLeaveAlthoughTheOwnerLagsNowAndThen(t *testing.T) {
	t.Parallel()
	s := newScript().lasts(20_000, "keeps up").connects().leased().lasts(5000, "keeps up").
		add(Record{Gateway: "a", Epoch: 10, LeaseEnded: 4000})
	for range 240 {
		s.lasts(9000, "keeps up").lasts(6000, "")
	}
	s.leaves(t)
}
