package liveness

// split replaces seg, to which h belongs, by two segments with one more bit each.
func (x *index) split(s *store, seg *segment, h uint64) {
	if uint(seg.depth) == x.depth {
		x.double()
	}
	lower, upper := newSegment(seg.depth+1), newSegment(seg.depth+1)
	x.redistribute(s, seg, lower, upper)
	first, places := x.places(seg, h)
	for i := range places {
		if i < places/2 {
			x.directory[first+i] = lower
		} else {
			x.directory[first+i] = upper
		}
	}
	x.segments++
}

// redistribute moves the slots of seg to lower or upper, by the next bit of the hash.
func (x *index) redistribute(s *store, seg, lower, upper *segment) {
	for _, slot := range seg.slots {
		if slot == 0 || slot == left {
			continue
		}
		e := slot&entryMask - 1
		h := x.hash(s.hot(e).user)
		if h<<seg.depth>>63 == 0 {
			lower.put(h, e)
		} else {
			upper.put(h, e)
		}
	}
}

// places is the part of the directory that points to seg.
func (x *index) places(seg *segment, h uint64) (first, n uint64) {
	n = 1 << (x.depth - uint(seg.depth))
	return (h >> 1 >> (63 - x.depth)) &^ (n - 1), n
}

func (x *index) double() {
	wider := make([]*segment, 2*len(x.directory))
	for i, seg := range x.directory {
		wider[2*i], wider[2*i+1] = seg, seg
	}
	x.directory = wider
	x.depth++
}

// join merges seg with its buddy if both together are small.
func (x *index) join(s *store, seg *segment, h uint64) {
	first, n := x.places(seg, h)
	buddyFirst := first ^ n
	buddy := x.directory[buddyFirst]
	if buddy.depth != seg.depth || buddy.used+seg.used > segmentLow {
		return
	}
	both := newSegment(seg.depth - 1)
	x.redistribute(s, seg, both, both)
	x.redistribute(s, buddy, both, both)
	for i := range 2 * n {
		x.directory[min(first, buddyFirst)+i] = both
	}
	x.segments--
	x.halve()
}

// halve shrinks the directory by one bit if no segment needs it. The scan is worth its cost only if
// there are far fewer segments than elements of the directory.
func (x *index) halve() {
	if x.depth == 0 || x.segments > len(x.directory)/4 {
		return
	}
	for _, seg := range x.directory {
		if uint(seg.depth) == x.depth {
			return
		}
	}
	narrower := make([]*segment, len(x.directory)/2)
	for i := range narrower {
		narrower[i] = x.directory[2*i]
	}
	x.directory = narrower
	x.depth--
}
