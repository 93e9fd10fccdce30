package liveness

import (
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Which frames of a gateway count: duplicates do not, nor do ever new epochs of one id; see ../DESIGN.md.

// gateway is what is known of a gateway's id.
type gateway struct {
	id     string
	epochs []*epoch
	own    latest // of its frames
	others latest // of those that detectors forwarded
	idle   bool   // is in the list
}

// maxEpochs is of how many epochs of a gateway frames may come within the silence that it is allowed. While there are
// more the gateway is crowded: somebody invents epochs, and each would have a life.
const maxEpochs = 4

// latest are the epochs of a gateway with the latest frames, duplicates included: the latest first.
type latest [maxEpochs + 1]struct {
	epoch schemas.Millis // 0: there is none
	counted
	draining counted    // its last draining frame
	numbered []numbered // the greatest sequence first; of a block, the oldest
}

// crowded takes a frame of an epoch, which is the first then, and reports whether the gateway is crowded.
func (l *latest) crowded(c *clock, epoch schemas.Millis, silence presence) bool {
	i := 0
	for i < maxEpochs && l[i].epoch != epoch {
		i++
	}
	e := l[i]
	if e.epoch != epoch {
		e.epoch, e.draining, e.numbered = epoch, counted{}, nil
	}
	copy(l[1:i+1], l[:i])
	e.counted = counted{c.now, silence}
	l[0] = e
	for i := range l {
		if !l[i].counts(c) {
			return false
		}
	}
	return true
}

// over reports whether no frame counts any more, nor will when the breaker turns presence time back by the allowed
// lateness, which is shorter than a minute.
func (l *latest) over(c *clock) bool {
	const turnedBack = 60_000 // milliseconds
	for i := range l {
		if l[i].at != 0 && c.presence() < c.at(l[i].at)+l[i].silence+turnedBack {
			return false
		}
	}
	return true
}

// epoch is one start of a gateway, as its last frame left it that was no duplicate.
type epoch struct {
	id         string
	epoch      schemas.Millis
	heard      schemas.Millis // log time
	sequence   uint64
	life       uint16 // the current one; 0: none
	leased     bool   // it counts as heard, and is not in the list
	draining   bool   // its newest frame with a lease was
	next, prev *epoch
}

// counted is a frame that counts for as long as a gateway may be silent, by the shortest of the policies since.
type counted struct {
	at      schemas.Millis // 0: there is none
	silence presence
}

// counts reports whether n still counts.
func (n *counted) counts(c *clock) bool { return n.at != 0 && c.presence() < c.at(n.at)+n.silence }

// numbered is a frame with a sequence, duplicates included. It decides which other frames are duplicates.
type numbered struct {
	sequence uint64
	counted
}

// A frame can only be a duplicate of one whose sequence is in the same block of 65,536, or in the next: a
// gateway writes far fewer to a partition while a frame counts. So no sequence silences a gateway whose
// own are elsewhere.
const blockBits = 16

// maxNumbered bounds how many frames are remembered: per block, those with ever smaller sequences.
const maxNumbered = 32

// duplicate reports for a frame of the first epoch whether the newest of its frames with an equal or greater sequence,
// in the same block or the next, still counts. It remembers this frame.
func (l *latest) duplicate(c *clock, sequence uint64, silence presence) (duplicate bool) {
	if sequence == 0 {
		return false
	}
	e := &l[0]
	if len(e.numbered) == maxNumbered {
		e.numbered = slices.DeleteFunc(e.numbered, func(n numbered) bool { return !n.counts(c) })
	}
	block := sequence >> blockBits
	// Per block the smallest remembered sequence is the newest.
	n := len(e.numbered)
	for n > 0 && e.numbered[n-1].sequence < sequence {
		n--
	}
	for i := n; i > 0 && e.numbered[i-1].sequence>>blockBits-block <= 1 && !duplicate; i-- {
		duplicate = e.numbered[i-1].counts(c)
	}
	end := n
	for end < len(e.numbered) && e.numbered[end].sequence>>blockBits == block {
		end++
	}
	if n > 0 && e.numbered[n-1].sequence == sequence {
		n--
	}
	e.numbered = slices.Delete(e.numbered, n, end)
	if len(e.numbered) < maxNumbered {
		e.numbered = slices.Insert(e.numbered, n, numbered{sequence, counted{c.now, silence}})
	}
	return duplicate
}

// setSilence sets how long a gateway may be silent from the log time from on.
func (g *gateways) setSilence(silence presence, from schemas.Millis) {
	g.silence, g.from, g.nextPlan = silence, from, 0
	for _, known := range g.known {
		for i := range known.own {
			known.others[i].silence = min(known.others[i].silence, silence)
			own := &known.own[i]
			own.silence, own.draining.silence = min(own.silence, silence), min(own.draining.silence, silence)
			for j := range own.numbered {
				own.numbered[j].silence = min(own.numbered[j].silence, silence)
			}
		}
	}
}
