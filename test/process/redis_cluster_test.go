//go:build unix

package process_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/test/testkit"
)

// slotMoves is how many slots move from node to node under the pipeline.
const slotMoves = 40

// Row 61: slots of a Redis Cluster move while users beat, are read and are watched.
func TestNoMoveOfASlotOfARedisClusterIsSeen(t *testing.T) {
	testkit.NeedLong(t)
	testkit.Binary(t, "stillhere")
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	w := newRedisWorld(t, testkit.Mode{})
	w.upOn(cluster)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	w.begin(ctx, &running)
	moved := w.moveSlots(cluster)
	w.moveFlipper(cluster)
	cancel()
	running.Wait()
	if w.failed > 0 {
		t.Errorf("%d of %d reads failed", w.failed, w.answers)
	}
	w.countTransitions(steadyOnes + 2)
	t.Logf("%d slots and that of a viewer's channel moved; %d reads, %d failed, %d said to be stale; %d changes, %d resyncs on the stream",
		moved, w.answers, w.failed, w.staled, w.changes, w.resyncs)
}

// upOn starts every role in one process on the cluster, with what else it needs.
func (w *redisWorld) upOn(cluster *redistest.Cluster) {
	w.Helper()
	_, database := testkit.Postgres(w.T)
	w.Broker = kafkatest.Start(w.T, identity.Users{}, testkit.DevPartitions).Brokers[0]
	path := testkit.Binary(w.T, "stillhere")
	if code := testkit.Start(w.T, path, nil, "migrate", "--postgres", database).Wait(time.Minute); code != 0 {
		w.Fatalf("migrate ended with %d", code)
	}
	w.Run(path, "all", "one", nil, "--kafka-brokers", w.Broker, "--redis", strings.Join(cluster.Addrs(), ","), "--redis-cluster",
		"--postgres", database)
	testkit.Until(w.T, "it is ready", time.Minute, func() bool { return strings.Contains(w.Err.String(), `"msg":"ready"`) || !w.Running() })
}

// moveSlots moves slots of users, or of the marks, each to the next node.
func (w *redisWorld) moveSlots(cluster *redistest.Cluster) (moved int) {
	w.Helper()
	ask := func(node *redistest.Server, command string, arguments ...any) string {
		answer := must.Get(node.Do(command, arguments...))(w.T)
		return answer
	}
	for tries := 0; moved < slotMoves && tries < 20*slotMoves; tries++ {
		i := tries % len(cluster.Nodes)
		key := ask(cluster.Nodes[i], "RANDOMKEY")
		if !strings.HasPrefix(key, "presence:") {
			continue
		}
		cluster.Move(key, cluster.Nodes[(i+1)%len(cluster.Nodes)])
		moved++
	}
	if moved < slotMoves {
		w.Errorf("only %d slots could be moved", moved)
	}
	return moved
}

// moveFlipper lets somebody come, moves the slot of that user's key and channel, and
// lets the user go: the viewer hears both.
func (w *redisWorld) moveFlipper(cluster *redistest.Cluster) {
	w.Helper()
	w.MustSend(testkit.Beat{User: flipper, Device: 9, Kind: "web"})
	testkit.Until(w.T, "the viewer has heard of the one who came", 20*time.Second, func() bool { return w.seenOf(flipper) == "online" })
	key := "presence:{" + strconv.FormatInt(flipper, 10) + "}"
	at := slices.Index(cluster.Nodes, cluster.Owner(key))
	cluster.Move(key, cluster.Nodes[(at+1)%len(cluster.Nodes)])
	w.MustSend(testkit.Beat{User: flipper, Device: 9, Bye: true})
	testkit.Until(w.T, "the viewer hears of the one who goes", 20*time.Second, func() bool { return w.seenOf(flipper) == "offline" })
}
