package history

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// Memory for processor time.
func init() { debug.SetGCPercent(800) }

// of runs an implementation over h.
func (impl Impl) of(h *History) []schemas.Transition { return impl(h.Log()) }

// compare holds impl equal to the oracle on the history of a seed.
func compare(t *testing.T, impl Impl, seed uint64) {
	t.Helper()
	compareOn(t, impl, fromSeed(seed))
}

// compareOn holds impl equal to the oracle on h. Where they differ it reports the
// smallest history on which they still differ, as JSON, to be stored under testdata.
func compareOn(t *testing.T, impl Impl, h *History) {
	t.Helper()
	if got := impl.of(h); slices.Equal(Impl(oracle.Run).of(h), got) {
		checkInstants(t, h, got)
		return
	}
	h = Shrink(h, func(h *History) bool { return !slices.Equal(Impl(oracle.Run).of(h), impl.of(h)) })
	t.Fatalf("%s\nStore it under testdata:\n%s", Difference(h, Impl(oracle.Run).of(h), impl.of(h)), h)
}

// checkInstants holds that no change has an instant before that of its user's previous one.
func checkInstants(t *testing.T, h *History, transitions []schemas.Transition) {
	t.Helper()
	last := map[schemas.UserID]schemas.Transition{}
	for _, tr := range transitions {
		if before := last[tr.User]; tr.At < before.At {
			t.Fatalf("%s\nis at an earlier instant than\n%s", Describe(h, tr), Describe(h, before))
		}
		last[tr.User] = tr
	}
}

// seeds are the first n where STILLHERE_FULL=1 asks for all of them, as .ci/long does, else the
// first of every 64; or those of STILLHERE_TEST_SEEDS=FROM-TO. Of all of them, STILLHERE_PART=2/4 takes
// the third of every four: .ci/run takes another part for each commit.
func seeds(t *testing.T, n uint64) iter.Seq[uint64] {
	from, to, part, parts := uint64(0), max(n/64, 4), uint64(0), uint64(1)
	if os.Getenv("STILLHERE_FULL") != "" {
		to = n
	}
	if text := os.Getenv("STILLHERE_TEST_SEEDS"); text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &from, &to); err != nil {
			t.Fatalf("STILLHERE_TEST_SEEDS=%s: must be FROM-TO: %v", text, err)
		}
	}
	if _, err := fmt.Sscanf(cmp.Or(os.Getenv("STILLHERE_PART"), "0/1"), "%d/%d", &part, &parts); err != nil || part >= parts {
		t.Fatalf("STILLHERE_PART: must be PART/PARTS, as 0/4 to 3/4 (%v)", err)
	}
	return func(yield func(uint64) bool) {
		for seed := from + part; seed < to && yield(seed); seed += parts {
		}
	}
}

func TestMachineDoesWhatTheOracleDoesOnRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 3000) {
		compare(t, Machine, seed)
	}
}

func TestMachineDoesWhatTheOracleDoesHoweverOftenItIsKilledAndLosesItsLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seeds   uint64
		history func(h *History, seed uint64) *History
	}{
		"ids":                 {1000, func(h *History, _ uint64) *History { return h }},
		"connections":         {3000, withConnections},
		"crowds":              {160, func(_ *History, seed uint64) *History { return ofCrowds(seed) }},
		"epochs":              {640, withEpochs},
		"leases":              {3000, withManyLeases},
		"names":               {1000, func(h *History, seed uint64) *History { h, _ = withNames(h, seed); return h }},
		"overrides":           {600, withOverrides},
		"overrides in crowds": {160, func(_ *History, seed uint64) *History { return withOverrides(ofCrowds(seed), seed) }},
		"policies":            {160, withPolicies},
		"tenants":             {1500, withTenants},
		"policies of tenants": {128, withManyPoliciesOfTenants},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(t, c.seeds) {
				h := c.history(fromSeed(seed), seed)
				lossy, every := withLosses(h, seed), 1+int(seed%9)
				compareOn(t, Machine, h)
				compareOn(t, killed(seed).Run, h)
				compareOn(t, RestartedAt(func(i int) bool { return i%every == 0 }), h)
				compareOn(t, Machine, lossy)
				compareOn(t, killed(seed).Run, lossy)
			}
		})
	}
}

// killed is a detector that is killed at some records, and writes snapshots now and then.
func killed(seed uint64) Runs {
	records := int(seed%9) + 1
	every := time.Duration(seed/9%5) * 700 * time.Millisecond
	return Runs{Restart: func(i int) bool { return i%records == 0 }, Key: seed,
		Snapshots: detector.Cadence{Least: every, Most: every + time.Millisecond, Step: 1 + int(seed%4)}}
}

func TestMachineRestartedAtAnyRecordDoesWhatTheOracleDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 300) {
		every := int(seed%9) + 1
		compare(t, RestartedAt(func(i int) bool { return i%every == 0 }), seed)
	}
}

func TestMachineDoesWhatTheOracleDoesOnHistoriesThatOnceWentWrong(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("testdata/*.json"))(t)
	if len(files) < 5 {
		t.Fatalf("%d histories are kept, must be at least 5", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := must.Get(os.ReadFile(file))(t)
			h := must.Get(Parse(text))(t)
			compareOn(t, Machine, h)
			compareOn(t, RestartedAt(func(int) bool { return true }), h)
		})
	}
}

func TestAKindThatWaitedWhileKindsWereNotAnnouncedIsPublishedOnceTheyAre(t *testing.T) {
	t.Parallel()
	on, off := liveness.Defaults(), liveness.Defaults()
	on.FlapBurst, off.AnnounceDevices = 1, false
	both := schemas.SetOfKinds(schemas.Mobile, schemas.Web).As(schemas.Online)
	beats := Record{After: 20_000, Rows: []Row{{User: 1, Device: 1, Kind: schemas.Mobile}, {User: 1, Device: 2, Kind: schemas.Web}}}
	h := &History{Settings: on, Partitions: 1,
		Records: []Record{beats, {Policy: &off}, beats, beats, {Policy: &on}, beats, beats, beats}}
	if got := oracle.Run(h.Log()); got[len(got)-1].Kinds != both {
		t.Errorf("the last change is %s", Describe(h, got[len(got)-1]))
	}
	compareOn(t, Machine, h)
}

func TestADeviceInUseIsOnlineOnceKindsAreAnnounced(t *testing.T) {
	t.Parallel()
	on, off := liveness.Defaults(), liveness.Defaults()
	off.AnnounceDevices = false
	phone := Record{After: 10_000, Rows: []Row{{User: 1, Device: 1, Kind: schemas.Mobile}}}
	desk := func(idle int64) Record {
		return Record{After: 1, Gateway: "g", Epoch: 8,
			Rows: []Row{{User: 1, Device: 2, Kind: schemas.Desktop, Connection: 1, Idle: idle}}}
	}
	for _, between := range [][]Record{{desk(0)}, {desk(1), phone, desk(0)}} {
		h := &History{Settings: off, Partitions: 1,
			Records: slices.Concat([]Record{phone}, between, []Record{{Policy: &on}, phone})}
		got := oracle.Run(h.Log())
		if last := got[len(got)-1]; last.Kinds != schemas.SetOfKinds(schemas.Mobile, schemas.Desktop).As(schemas.Online) {
			t.Errorf("the last change is %s", Describe(h, last))
		}
		compareOn(t, Machine, h)
	}
}

func TestAHistoryReadsBackFromItsText(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		h := fromSeed(seed)
		again := must.Get(Parse([]byte(h.String())))(t)
		if again.String() != h.String() || len(again.Records) != len(h.Records) {
			t.Fatalf("seed %d: read back as\n%s", seed, again)
		}
	}
}

func FuzzMachineDoesWhatTheOracleDoes(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		// Long histories find no more, and go test ends a fuzzer whose run takes 10 s, as a long one may beside all
		// other checks at the lowest priority.
		bytes = bytes[:min(len(bytes), 1000)]
		h := fromBytes(bytes)
		compareOn(t, Machine, h)
		seed := uint64(len(bytes))
		compareOn(t, killed(seed).Run, withLosses(h, seed))
		compareOn(t, killed(seed).Run, withLeases(withConnections(h, seed), seed))
		compareOn(t, killed(seed).Run, withLosses(withOverrides(h, seed), seed))
	})
}

// withForwards makes some frames forwarded, and says when they had been written elsewhere.
func withForwards(h *History) *History {
	for i := range h.Records {
		if r := &h.Records[i]; r.Forward || i%7 == 0 && len(r.Rows) > 0 && r.Gateway == "" {
			r.Forward, r.Late = true, [...]int64{0, 1, grid, 3000, 9000, -1000}[i%6]
		}
	}
	return h
}

// withDrains has gateways that drain and go on, and users who are about to count as idle when their devices leave.
func withDrains(h *History) *History {
	p := &h.Settings
	p.IdleAfter = max(p.IdleAfter, p.OnlineTTL+p.OfflineDebounce)
	margin := (p.IdleAfter - p.OnlineTTL - p.OfflineDebounce).Milliseconds()
	for i := range h.Records {
		r := &h.Records[i]
		r.Draining = r.Draining || r.Gateway != ""
		for j := range r.Rows {
			r.Rows[j].Idle = max(0, [...]int64{0, margin, margin - 1, margin - grid}[(i+j)%4])
		}
	}
	return h
}

func TestMachineDoesWhatTheOracleDoesWithForwardedFramesAndDrains(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 1500) {
		for _, impl := range []Impl{Machine, RestartedAt(func(i int) bool { return i%9 == 0 })} {
			compareOn(t, impl, withForwards(fromSeed(seed)))
			compareOn(t, impl, withDrains(fromSeed(seed)))
		}
	}
}
