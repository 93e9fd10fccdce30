package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// The progress lie on one node and tell nothing of the others.
func TestANodeOfAClusterThatWasEmptiedIsFilledAgain(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	options := redisview.Options{Addrs: cluster.Addrs(), Cluster: true}
	p := startOn(t, &redistest.Server{}, options)
	var ids []schemas.UserID
	for id := schemas.UserID(1); id <= 30; id++ {
		ids = append(ids, id)
		p.happen(t, change(id, schemas.Version(id), schemas.Offline, schemas.Online))
	}
	p.tick(t)
	first := must.Get(p.view.Progress(t.Context(), 0))(t)

	progress := cluster.Owner("presence:progress")
	for _, node := range cluster.Nodes {
		if node != progress {
			must.Get(node.Do("FLUSHALL"))(t)
			break
		}
	}
	lost := 0
	for _, e := range p.entries(t, ids) {
		if !e.Found {
			lost++
		}
	}
	if lost == 0 || lost == len(ids) {
		t.Fatalf("%d users of %d were on the node: the test shows nothing", lost, len(ids))
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for late := time.After(30 * time.Second); ; {
		p.tick(t)
		progress := must.Get(p.view.Progress(t.Context(), 0))(t)
		if progress.Epoch > first.Epoch {
			break
		}
		select {
		case <-ticker.C:
		case <-late:
			t.Fatal("the loss was not noticed")
		}
	}
	for i, e := range p.entries(t, ids) {
		if !e.Found || e.State != schemas.Online {
			t.Errorf("after the rebuild user %d is %+v", ids[i], e)
		}
	}
	again := startOn(t, &redistest.Server{}, options) // looks at once, and may not use the progress of a moment ago
	again.users = p.users
	again.during = func() { t.Error("rebuilt again without a loss") }
	again.tick(t)
	again.wantRight(t, false)
}

func TestAClusterIsRebuiltOnceWhenItIsMetForTheFirstTime(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	options := redisview.Options{Addrs: cluster.Addrs(), Cluster: true}
	p, rebuilds := startOn(t, &redistest.Server{}, options), 0
	p.during = func() { rebuilds++ }
	p.tick(t)
	again := startOn(t, &redistest.Server{}, options)
	again.during = p.during
	again.tick(t) // looks at all witnesses, for it has not yet
	if rebuilds != 1 {
		t.Errorf("%d rebuilds", rebuilds)
	}
}

func (p *pipeline) entries(t *testing.T, ids []schemas.UserID) []redisview.Entry {
	t.Helper()
	entries, _, err := p.view.Read(t.Context(), ids)
	must.Do(t, err)
	if len(entries) != len(ids) {
		t.Fatal(fmt.Sprint(len(entries), " entries"))
	}
	return entries
}
