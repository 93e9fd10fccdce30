package history

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// A detector that is killed puts out what it would have put out, to the last status, and has the same state.
func TestADetectorThatIsKilledComesToTheSameState(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]func(seed uint64) *History{
		"ids":      fromSeed,
		"crowds":   ofCrowds,
		"epochs":   func(seed uint64) *History { return withEpochs(fromSeed(seed), seed) },
		"leases":   func(seed uint64) *History { return withManyLeases(fromSeed(seed), seed) },
		"forwards": func(seed uint64) *History { return withForwards(fromSeed(seed)) },
		"tenants":  func(seed uint64) *History { return withTenants(fromSeed(seed), seed) },
		"namesakes": func(seed uint64) *History {
			text, _ := withNames(fromSeed(seed), seed)
			return withNamesakes(text, seed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range seeds(t, 3000) {
				log := history(seed).Log()
				want, got := Runs{}.run(log), killed(seed).run(log)
				same := func(a, b schemas.Record) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }
				switch {
				case !slices.Equal(want.transitions, got.transitions):
					t.Fatalf("seed %d: other transitions", seed)
				case !slices.EqualFunc(want.written, got.written, same):
					t.Fatalf("seed %d: other statuses", seed)
				case !slices.EqualFunc(want.names, got.names, same):
					t.Fatalf("seed %d: other names", seed)
				case want.partition.Digest() != got.partition.Digest():
					t.Fatalf("seed %d: another state", seed)
				}
			}
		})
	}
}
