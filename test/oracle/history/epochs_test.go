package history

import "testing"

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

func TestMachineTellsEpochsApartAsTheOracleDoesHoweverOftenItIsKilled(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 640) {
		h := withEpochs(fromSeed(seed), seed)
		compareOn(t, Machine, h)
		compareOn(t, killed(seed).Run, h)
		compareOn(t, killed(seed).Run, withLosses(h, seed))
	}
}
