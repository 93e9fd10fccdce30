package redistest

import (
	"fmt"
	"slices"
	"testing"
)

// Tests that move slots are about what the pipeline makes of it; a cluster that is
// broken afterwards would say nothing about that.
func TestAfterMovesOneAfterAnotherEverySlotHasOneOwner(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t, 3)
	const moves = 30
	for i := range moves {
		key := fmt.Sprintf("{%d}", i)
		owner := cluster.Owner(key)
		owner.must("SET %s there", key)
		cluster.Move(key, cluster.Nodes[(slices.Index(cluster.Nodes, owner)+1)%len(cluster.Nodes)])
	}
	for i := range moves {
		key := fmt.Sprintf("{%d}", i)
		if got := cluster.Owner(key).must("GET %s", key); got != "there" {
			t.Errorf("%s is %q", key, got)
		}
	}
}
