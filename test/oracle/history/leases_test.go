package history

// withLeases is h with leases of gateways, some of which are heard in no other way. The seed says where.
func withLeases(h *History, seed uint64) *History {
	s := &source{bytes: ofSeed(seed+5<<40, 100+8*len(h.Records))}
	epochs, rare := map[string]int64{}, s.chance(2)
	for i := range h.Records {
		r := &h.Records[i]
		if rare && r.Gateway != "" && len(r.Rows) == 0 && !r.Begins && !r.Ends {
			*r = Record{After: r.After, Tick: true}
		}
		if r.Gateway != "" {
			epochs[r.Gateway] = r.Epoch
		}
		if !r.Tick || !s.chance(2) {
			continue
		}
		r.Tick, r.Gateway = false, one(s, "a", "b", "c", "d")
		r.Epoch = max(8, epochs[r.Gateway]+one(s, int64(0), 0, 0, 0, 0, -1, 1))
		if r.Leased = s.chance(2); r.Leased {
			r.Draining = s.chance(6)
		} else {
			r.LeaseEnded = one(s, 1, 249, 1000, 3000, int64(1+s.below(15_000)))
		}
	}
	return h
}

// withManyLeases is a history with connections and leases, and many epochs, policies or losses of gateways.
func withManyLeases(h *History, seed uint64) *History {
	switch h = withConnections(h, seed); seed % 4 {
	case 0:
		h = withEpochs(h, seed)
	case 1:
		h = withPolicies(withEpochs(h, seed), seed)
	case 2:
		h = ofCrowds(seed)
	}
	return withLeases(h, seed)
}
