package liveness

import "slices"

// wheel is a lazy timer wheel: it returns the entries to check. A timer is never moved or removed.
// The entry knows its valid timer (cold.armed); others are dropped when they fire.
type wheel struct {
	buckets [wheelBuckets]*timers
	spare   *timers // blocks for reuse
	spares  int
	blocks  int
	cursor  presence // start of the next bucket
	base    presence // of the stamps in entries
	soon    heap     // timers before cursor
}

// timers is a block of one bucket's timers.
type timers struct {
	next    *timers
	n       int32
	entries [timersPerBlock]uint32
}

const (
	wheelStep      = 64 // milliseconds a bucket spans
	wheelBuckets   = 4096
	wheelHorizon   = wheelStep * (wheelBuckets - 2)
	timersPerBlock = 61 // makes a block 256 bytes
)

// restart empties the wheel and sets it to the presence instant now. Timers set by another clock,
// as in a restore, would be dropped or never fire.
func (w *wheel) restart(now presence) {
	*w = wheel{cursor: max(now, 0) / wheelStep * wheelStep, base: w.base} // buckets have no negative numbers
}

// stamp encodes the instant of a timer for its entry.
func (w *wheel) stamp(at presence) stamp { return stamp(at-w.base) + atBase }

// instant decodes what stamp encodes.
func (w *wheel) instant(s stamp) presence { return w.base + presence(s-atBase) }

// horizon is the latest instant of a timer. For a later limit the timer is set again then.
func (w *wheel) horizon() presence { return w.cursor + wheelHorizon }

// add sets a timer for entry e. at is not after horizon.
func (w *wheel) add(at presence, e uint32) {
	if at < w.cursor {
		w.soon.push(due{at, e})
		return
	}
	b := &w.buckets[at/wheelStep%wheelBuckets]
	if *b == nil || (*b).n == timersPerBlock {
		block := w.spare
		if block == nil {
			block = new(timers)
			w.blocks++
		} else {
			w.spare = block.next
			w.spares--
		}
		block.next, block.n = *b, 0
		*b = block
	}
	(*b).entries[(*b).n] = e
	(*b).n++
}

// advance moves the timers of the next bucket to soon. look returns the exact instant of each, or
// false for one that is not valid, and may set others. touch gets the entries of a block before
// look does.
func (w *wheel) advance(touch func(entries []uint32), look func(e uint32) (presence, bool)) {
	b := &w.buckets[w.cursor/wheelStep%wheelBuckets]
	for *b != nil {
		block := *b
		touch(block.entries[:block.n])
		for _, e := range block.entries[:block.n] {
			if at, counts := look(e); counts {
				w.soon.push(due{at, e})
			}
		}
		*b = block.next
		w.recycle(block)
	}
	w.cursor += wheelStep
}

// recycle keeps a block for reuse.
func (w *wheel) recycle(block *timers) {
	block.next, w.spare = w.spare, block
	w.spares++
}

// trim drops spare blocks beyond half of the blocks in use.
func (w *wheel) trim() {
	for w.spares > 64 && w.spares > (w.blocks-w.spares)/2 {
		w.spare = w.spare.next
		w.spares--
		w.blocks--
	}
	if cap(w.soon) > 4096 && len(w.soon) < cap(w.soon)/8 {
		w.soon = slices.Clone(w.soon)
	}
}

// bytes is the memory of the wheel.
func (w *wheel) bytes() int {
	const block = 256
	return wheelBuckets*8 + w.blocks*block + cap(w.soon)*16
}

// due is an entry to check.
type due struct {
	at presence
	e  uint32
}

// heap is a binary heap, earliest first. (container/heap would allocate for every timer.)
type heap []due

func (h *heap) push(d due) {
	*h = append(*h, d)
	s, i := *h, len(*h)-1
	for i > 0 && s[(i-1)/2].at > d.at {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = d
}

// pop removes the earliest; the heap must not be empty.
func (h *heap) pop() due {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	i := 0
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].at < s[child].at {
			child++
		}
		if s[child].at >= last.at {
			break
		}
		s[i] = s[child]
		i = child
	}
	if len(s) > 0 {
		s[i] = last
	}
	return top
}
