package oracle

import (
	"math/rand/v2"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

const begin = schemas.Millis(1_763_700_000_000)

func TestPresenceTimeAdvancesByAtMostFiveSecondsBetweenTwoRecordsWhateverTheBreakerDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var c clock
		var records []schemas.Millis
		limit := schemas.Millis(1000 + random.IntN(60_000))
		for now := begin; len(records) < 60; now += schemas.Millis([]int{0, 250, 4000, 5001, 30_000, 900_000}[random.IntN(6)]) {
			c.advance(now, limit)
			records = append(records, now)
			switch before := records[max(0, len(records)-2)]; {
			case c.stopped == 0 && random.IntN(4) == 0:
				c.open(c.wall(c.presence(before) + millis(random.Int64N(int64(c.presence(c.now)-c.presence(before))+1))))
			case c.stopped != 0 && random.IntN(8) == 0:
				c.close(now)
			}
			for i := 1; i < len(records); i++ {
				if step := c.presence(records[i]) - c.presence(records[i-1]); step < 0 || step > maxStep {
					t.Fatalf("seed %d: from record %d at %d to the next at %d presence time goes %d ms at record %d", seed, i-1,
						records[i-1]-begin, records[i]-begin, step, len(records)-1)
				}
				if p := c.presence(records[i]); c.presence(c.wall(p)) != p || c.wall(p) > records[i] {
					t.Fatalf("seed %d: presence time %d begins at %d, which is record %d's", seed, p, c.wall(p), i)
				}
			}
		}
	}
}
