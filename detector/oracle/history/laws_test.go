package history_test

import (
	"testing"

	"github.com/stillhere/stillhere/detector/oracle"
	"github.com/stillhere/stillhere/detector/oracle/history"
)

// lawful runs check on many histories, for both implementations.
func lawful(t *testing.T, check func(t *testing.T, impl history.Impl, seed uint64)) {
	t.Parallel()
	for name, impl := range map[string]history.Impl{"oracle": oracle.Run, "machine": history.Machine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(400) {
				check(t, impl, seed)
			}
		})
	}
}

func TestExtraTicksChangeNothingButVersions(t *testing.T) {
	lawful(t, func(t *testing.T, impl history.Impl, seed uint64) {
		h := history.FromSeed(seed)
		history.CheckSame(t, impl, h, history.WithExtraTicks(h, seed+1), "extra ticks change nothing but versions")
	})
}

func TestFramesWrittenTwiceChangeNothingButVersions(t *testing.T) {
	lawful(t, func(t *testing.T, impl history.Impl, seed uint64) {
		h := history.FromSeed(seed)
		history.CheckSame(t, impl, h, history.WithFramesTwice(h), "frames written twice change nothing but versions")
	})
}

func TestTransitionsOfAUserLinkUpAndChangeSomething(t *testing.T) {
	lawful(t, func(t *testing.T, impl history.Impl, seed uint64) {
		history.CheckWellFormed(t, impl, history.FromSeed(seed))
	})
}
