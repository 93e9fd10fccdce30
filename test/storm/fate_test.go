//go:build unix

package storm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// crashPoints are those of internal/kafka/DESIGN.md.
var crashPoints = append([]string{"handle", "commit.begun", "commit.forwarded", "commit.flushed", "commit.offsets", "commit.ended",
	"restore.begun", "restore.reading", "restore.done"}, snapshotPoints...)

var snapshotPoints = []string{"snapshot.begun", "snapshot.chunk", "snapshot.complete"}

// manySnapshots makes detectors write one snapshot after the other, eight users at a record, and transactions end between
// these; see internal/crashpoint. Apache Kafka is too slow for such transactions.
var manySnapshots = []string{"STILLHERE_SNAPSHOT_MILLIS=20", "STILLHERE_TRANSACTION_RECORDS=2"}

// maxTries is how often a fate is tried that does not come true.
const maxTries = 20

// fate is how one life of a detector ends.
type fate struct {
	life time.Duration // before it is killed, frozen or stopped
	// at is the crash point where it kills or freezes itself, with the time it is
	// to come there; empty: it is killed or frozen after its life.
	at     string
	freeze time.Duration // it is frozen so long rather than killed
	stop   bool          // it is asked to stop: a planned restart
	down   time.Duration // until the next life
	tries  int           // that failed
}

// draw is a random number generator for what is decided before the storm.
func (s *storm) draw() *rand.Rand { return rand.New(rand.NewPCG(s.seed, 99)) }

// between draws a duration of which the shorter ones are as likely as the longer.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	low, high := math.Log(float64(least)), math.Log(float64(most))
	return time.Duration(math.Exp(low + random.Float64()*(high-low)))
}

func visitPoint(random *rand.Rand, point string) string {
	most := 30
	switch {
	case strings.HasPrefix(point, "restore"):
		most = 3
	case strings.HasPrefix(point, "snapshot"):
		most = 20 // six partitions have their first, and then some follow that are read
	}
	return fmt.Sprintf("%s:%d", point, 1+random.IntN(most))
}

// kills are so many deaths, some of them at crash points, and some planned
// restarts and freezes in between.
func (s *storm) kills(n int64) []fate {
	random := s.draw()
	var all []fate
	for left := n; left > 0; {
		f := fate{life: between(random, 30*time.Millisecond, 2*time.Second), down: between(random, time.Millisecond, 500*time.Millisecond)}
		switch roll := random.IntN(20); {
		case roll < 1 && n > 5: // longer than the group waits for it
			f.freeze = 6500*time.Millisecond + between(random, time.Millisecond, 2*time.Second)
		case roll < 3:
			f.freeze = between(random, 50*time.Millisecond, 2*time.Second)
		case roll < 5:
			f.stop = true
		case roll < 11:
			f.at = visitPoint(random, s.points[random.IntN(len(s.points))])
			left--
		default:
			left--
		}
		all = append(all, f)
	}
	return all
}

// crashes are so many deaths at each of the crash points.
func (s *storm) crashes(times int) []fate {
	random := s.draw()
	var all []fate
	for range times {
		for _, i := range random.Perm(len(s.points)) {
			all = append(all, fate{at: visitPoint(random, s.points[i]), down: between(random, time.Millisecond, 200*time.Millisecond)})
		}
	}
	return all
}

// freezes are so many freezes of a tenth of a second to a minute, one in two in the
// middle of a commit. Few are so long that nobody could wait for a hundred of them.
func (s *storm) freezes(n int) []fate {
	random := s.draw()
	var all []fate
	for i := range n {
		f := fate{life: between(random, 100*time.Millisecond, time.Second), freeze: between(random, 100*time.Millisecond, 6*time.Second)}
		switch {
		case i%20 == 10:
			f.freeze = between(random, 15*time.Second, time.Minute)
		case i%3 == 0: // the group takes its partitions away
			f.freeze = between(random, 6500*time.Millisecond, 9*time.Second)
		}
		if random.IntN(2) == 0 {
			f.at = visitPoint(random, crashPoints[1+random.IntN(5)]) + ":stop"
		}
		all = append(all, f)
	}
	return all
}

// next is the next fate, if there is one.
func (s *storm) next() (f fate, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fates) == 0 {
		return fate{}, false
	}
	f = s.fates[0]
	s.fates = s.fates[1:]
	return f, true
}

// again puts a fate that did not come true back, or fails if it never does.
func (s *storm) again(f fate) {
	s.Helper()
	if f.tries++; f.tries >= maxTries {
		s.Errorf("no detector came to the crash point %s in %d tries", f.at, f.tries)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fates = append(s.fates, f)
}
