package history

import (
	"strings"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// withEpochs is h with gateways that now and then have ever other epochs, and drain.
func withEpochs(h *History, seed uint64) *History {
	s := &source{bytes: ofSeed(seed+1<<40, 8*len(h.Records))}
	busy := false
	for i := range h.Records {
		r := &h.Records[i]
		if r.Gateway == "" {
			continue
		}
		if busy = busy != s.chance(12); !busy {
			continue
		}
		r.Epoch = int64(8 + s.below(one(s, 3, 8)))
		r.Draining = s.chance(6)
		if s.chance(3) {
			r.Gateway = "a"
		}
	}
	return h
}

// withClocks is h with gateways and brokers whose clocks are days off.
func withClocks(h *History, seed uint64) *History {
	const day = int64(86_400_000)
	s := &source{bytes: ofSeed(seed+2<<40, 8*len(h.Records))}
	for i := range h.Records {
		if r := &h.Records[i]; s.chance(12) {
			r.After += one(s, -2*day, -2*day, 2*day)
		} else if r.Gateway != "" && s.chance(4) {
			r.Epoch += one(s, day, day+1, 2*day, -day)
		}
	}
	return h
}

func TestMachineRefusesEpochsAsTheOracleDoesWhateverClocksShow(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range seeds(t, 320) {
		h := withClocks(fromSeed(seed), seed)
		compareOn(t, Machine, h)
		compareOn(t, killed(seed).Run, h)
		compareOn(t, killed(seed).Run, withLosses(h, seed))
		for reason := range (Runs{}).run(h.Log()).rejected {
			if strings.Contains(reason, "gateway_epoch_ms") {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no epoch is refused")
	}
}

// A forwarded frame whose rows are all left out says nothing of its gateway's epochs.
func TestMachineCountsEpochsAsTheOracleDoesWhenRowsAreLeftOut(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 640) {
		h, _ := withNames(fromSeed(seed), seed)
		s := &source{bytes: ofSeed(seed+3<<40, 16*len(h.Records))}
		for i := range h.Records {
			r := &h.Records[i]
			if r.Gateway == "" || len(r.Rows) == 0 || s.chance(3) {
				continue
			}
			r.Gateway, r.Epoch, r.Sequence, r.Draining, r.Forward = "a", int64(8+s.below(one(s, 3, 8))), 0, false, !s.chance(4)
			if forged := s.chance(2); forged {
				for j := range r.Rows {
					r.Rows[j].Name = &schemas.Name{Tenant: "acme", Text: "a stranger"}
				}
			}
		}
		compareOn(t, Machine, h)
		compareOn(t, killed(seed).Run, h)
	}
}
