package history

import (
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// ofOwner makes the history of a seed in which an owner ticks, is away, or lags, while gateways open connections, live
// and die.
func ofOwner(seed uint64) *History {
	s := &source{bytes: ofSeed(seed+9<<40, 4000)}
	h := &History{Settings: settings(s), Partitions: 1, Start: one(s, starts...),
		MostDue: []int{0, 0, 0, 1, 2, 20}[seed%6]}
	h.Settings.AllowedLateness = one(s, h.Settings.AllowedLateness, 5*time.Second, 3*time.Second)
	crowd := s.chance(3)
	if crowd {
		h.Settings.BreakerPercent = one(s, 30, 60, 0)
		h.Settings.BreakerLimit = time.Duration(one(s, 10, 60, 600)) * time.Second
	}
	names := []string{"a", "b", "c", "d"}
	epochs := []int64{10, 10, 10, 10}
	dead, leased := [4]bool{}, [4]bool{}
	after, gaps := int64(0), 0
	add := func(r Record) {
		r.After += after
		after = 0
		if r.After > maxStep {
			gaps++
		}
		h.Records = append(h.Records, r)
	}
	rows := func(g int) {
		r := Record{Gateway: names[g], Epoch: epochs[g]}
		n := 1 + s.below(3)
		if crowd {
			n = 30
		}
		for i := range n {
			row := Row{User: schemas.UserID(1 + g*32 + i), Device: schemas.DeviceID(1 + s.below(2)), Kind: schemas.Mobile}
			if !crowd {
				row.User = schemas.UserID(1 + s.below(5))
			}
			if !s.chance(3) {
				row.Connection = schemas.ConnectionID(1 + s.below(3))
			}
			row.Bye = s.chance(20)
			row.Age = one(s, int64(0), 0, 0, 300, 4000)
			r.Rows = append(r.Rows, row)
		}
		if s.chance(12) {
			r.Begins = true
		}
		if s.chance(12) {
			r.Ends = true
		}
		add(r)
	}
	event := func(owned bool) {
		g := s.below(4)
		switch s.below(12) {
		case 0:
			dead[g] = !dead[g]
		case 1:
			if s.chance(3) {
				epochs[g]++
				leased[g] = false
			}
		case 2:
			if s.chance(4) {
				p := settings(s)
				p.AllowedLateness = one(s, p.AllowedLateness, 5*time.Second)
				add(Record{Policy: &p})
			}
		case 3, 4, 5:
			if owned {
				leased[g] = !leased[g]
				if leased[g] {
					add(Record{Gateway: names[g], Epoch: epochs[g], Leased: true, Draining: s.chance(8)})
				} else {
					add(Record{Gateway: names[g], Epoch: epochs[g], LeaseEnded: one(s, int64(4000), 1000, 60_000)})
				}
			}
		case 6:
			if !dead[g] {
				add(Record{Gateway: names[g], Epoch: epochs[g], Draining: s.chance(8)})
			}
		case 7:
			if s.chance(4) {
				add(Record{Hide: schemas.UserID(1 + s.below(5))})
			}
		case 8:
			if s.chance(4) {
				add(Record{Show: schemas.UserID(1 + s.below(5))})
			}
		default:
			if !dead[g] {
				rows(g)
			}
		}
	}
	for !s.empty() && len(h.Records) < 500 {
		// The owner is there,
		step := one(s, int64(250), 250, 1000, 4750, 5000, 5250)
		for range 5 + s.below(60) {
			after += step
			if step > maxStep {
				gaps++
			}
			add(Record{Tick: true})
			if s.chance(4) {
				event(true)
			}
		}
		// and away, or lags.
		long := one(s, int64(6000), 8000, 20_000, 20_000, 150_000, 3_600_000)
		every := max(one(s, int64(500), 2000, 4000), long/60)
		lags := s.chance(4)
		for at := int64(0); at < long && len(h.Records) < 600; at += every {
			after += every
			if s.chance(3) {
				event(false)
			}
			if s.chance(2) || after > maxStep && gaps > 50 {
				add(Record{Gateway: "z", Epoch: 10, Rows: []Row{{User: 200, Device: 1, Kind: schemas.Web}}})
			}
			if lags || s.chance(40) {
				add(Record{Tick: true, Behind: lags && !s.chance(40)})
			}
		}
	}
	for range 80 {
		add(Record{After: one(s, int64(1000), 5000, 4750), Tick: true})
	}
	n := 0
	for i := range h.Records {
		if h.Records[i].After > maxStep {
			if n++; n > 55 {
				h.Records[i].After = maxStep
			}
		}
	}
	return h
}

func TestMachineDoesWhatTheOracleDoesWhateverTheOwnerDoes(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 320) {
		h := ofOwner(seed)
		every := 1 + int(seed%9)
		compareOn(t, Machine, h)
		compareOn(t, killed(seed).Run, h)
		compareOn(t, RestartedAt(func(i int) bool { return i%every == 0 }), h)
		if want, got := oracle.RunUnsure(h.Log()), (Runs{}).Unsure(h.Log()); !slices.Equal(want, got) {
			t.Fatalf("seed %d: unsure differ", seed)
		}
		lossy := withLosses(h, seed)
		compareOn(t, Machine, lossy)
		compareOn(t, killed(seed).Run, lossy)
	}
}

// ofLag makes the history of a seed in which an owner lags for an hour or two, with gaps of the log, and then keeps up.
func ofLag(seed uint64) *History {
	s := &source{bytes: ofSeed(seed+11<<40, 20_000)}
	h := &History{Settings: settings(s), Partitions: 1, Start: one(s, starts...), MostDue: []int{0, 0, 1, 2}[seed%4]}
	h.Settings.AllowedLateness = one(s, h.Settings.AllowedLateness, 5*time.Second)
	h.Settings.FlapInterval, h.Settings.FlapBurst = 250*time.Millisecond, one(s, 0, 1, 20)
	h.Settings.AwayTTL = one(s, 0, h.Settings.AwayTTL)
	h.Settings.CohortTotalRate = one(s, 1, 100_000)
	h.Partitions = one(s, int32(1), 30)
	users := h.users(8)
	gaps, n := 0, 900+s.below(900)
	dies := [3]int{s.below(n / 2), s.below(n), 20 + s.below(200)}
	for i := range n {
		r := Record{After: one(s, int64(4000), 4750, 3000)}
		if s.chance(12) && gaps < 55 {
			gaps++
			r.After = one(s, int64(6000), 60_000, 600_000)
		}
		g := s.below(4)
		switch {
		case i < 20 && i%2 == 0, i%4 == 3:
			r.Tick = true
		case g < 3 && i < dies[g]:
			r.Gateway, r.Epoch = []string{"a", "b", "c"}[g], 10
			r.Rows = []Row{{User: users[2*g+s.below(2)], Device: 1, Kind: schemas.Mobile,
				Connection: schemas.ConnectionID(s.below(3))}}
		case s.chance(2):
			r.Gateway, r.Epoch = "z", 10
			r.Rows = []Row{{User: users[7], Device: 1, Kind: schemas.Web}}
		default:
			r.Rows = []Row{{User: users[6], Device: 1, Kind: schemas.Web}}
		}
		h.Records = append(h.Records, r)
	}
	for range 100 {
		h.Records = append(h.Records, Record{After: one(s, int64(1000), 4750, 4000), Tick: true})
	}
	return h
}

func TestMachineDoesWhatTheOracleDoesHoweverLongTheOwnerLags(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 160) {
		h := ofLag(seed)
		compareOn(t, Machine, h)
		compareOn(t, killed(seed).Run, h)
		compareOn(t, RestartedAt(func(i int) bool { return i%100 == 0 }), h)
	}
}
