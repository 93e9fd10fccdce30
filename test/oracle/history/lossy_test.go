package history

import "slices"

// inOrder is for how long what is due waits in the order of its instants: see detector/DESIGN.md,
// "What may surprise".
const inOrder = 20 * 24 * 60 * 60 * 1000

// withLosses is h with restarts that cannot find everything any more, of the kinds given, or
// of any. The seed says where.
func withLosses(h *History, seed uint64, kinds ...Lost) *History {
	if len(kinds) == 0 {
		kinds = []Lost{LostLog, LostLog, LostCommit, LostTopic, LostTail}
	}
	s := &source{bytes: ofSeed(seed, 16+4*len(h.Records))}
	lossy := *h
	lossy.Records = nil
	every := one(s, 40, 120, 15)
	weeks := slices.ContainsFunc(h.Records, func(r Record) bool { return r.After > inOrder })
	for i, r := range h.Records {
		if i > 0 && s.chance(every) {
			r.Lose = one(s, kinds...)
			if r.Lose == LostCommit && weeks {
				r.Lose = LostLog
			}
			r.Keep = s.below(20)
			if r.Lose == LostLog && s.chance(3) {
				r.Keep = -s.below(6)
			}
			r.After = max(r.After, 0)
			if r.Lose == LostTopic || r.Lose == LostTail {
				// So that no record of the new log can be taken for one of the old.
				r.After += 10_000
			}
			if s.chance(4) {
				r.After += 20 * 60_000 // an absence
			}
		}
		lossy.Records = append(lossy.Records, r)
	}
	return &lossy
}
