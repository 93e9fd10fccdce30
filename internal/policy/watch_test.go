package policy

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestAllProcessesLookForAPolicyAtTheSameTime(t *testing.T) {
	t.Parallel()
	mark := time.Unix(1_763_700_000, 0).Truncate(WatchInterval)
	for range 1000 {
		started := mark.Add(rand.N(WatchInterval))
		look := started.Add(nextLook(started))
		if late := look.Sub(mark.Add(WatchInterval)); late < 0 || late >= lookSpread {
			t.Fatalf("who started %s after a look looks %s after the next one", started.Sub(mark), late)
		}
		if again := look.Add(nextLook(look)).Sub(mark.Add(2 * WatchInterval)); again < 0 || again >= lookSpread {
			t.Fatalf("it looks again %s after the second one", again)
		}
	}
}
