//go:build synctests

package looptest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// copies runs one member over two partitions while something happens to the
// broker, and checks that everything was copied once and in order.
func (w *world) copies(rounds int, happens func(round int)) *processor.Processor {
	w.Helper()
	_, transform := w.joined("a", 2)
	for round := range rounds {
		happens(round)
		w.beat(0, "x")
		w.beat(1, "y")
		time.Sleep(50 * time.Millisecond)
	}
	w.until("all copied", 2*time.Minute, func() bool { c := w.counts(); return c["x"] == rounds && c["y"] == rounds })
	return transform
}

// onceInOrder checks that a key is in the heartbeats just so often, written by
// AppendSync one after the other.
func (w *world) onceInOrder(rounds int) {
	w.Helper()
	seen := map[string]int{}
	for _, r := range w.read(schemas.Heartbeats) {
		seen[string(r.Key)]++
	}
	if seen["x"] != rounds || seen["y"] != rounds {
		w.Errorf("%d and %d records were appended, must be %d each", seen["x"], seen["y"], rounds)
	}
}

func TestLeadersThatMoveWhileOneWritesNeitherLoseNorDouble(t *testing.T) {
	inCluster(t, 3, 2, func(w *world) {
		w.copies(200, func(round int) {
			for _, topic := range []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Statuses} {
				must.Do(w, w.kafka.Cluster().MoveTopicPartition(topic.Name("presence."), int32(round%2), int32(round%3)))
			}
		})
		w.onceInOrder(200)
	})
}

func TestAWriteThatWasCarriedOutButAnsweredWithATimeoutIsThereOnce(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend} {
		t.Run(err.Message, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				n := 0 // the cluster's goroutine's
				fault := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: err, Count: -1,
					When: func(kmsg.Request) bool { n++; return n%3 == 0 }})
				w.copies(60, func(int) {})
				if fault.Hits() < 50 {
					w.Errorf("only %d answers were timeouts", fault.Hits())
				}
				fault.Remove()
				w.onceInOrder(60)
			})
		})
	}
}

func TestACommitWhoseAnswerIsLostCountsOnce(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		lost := &answersLost{dial: w.cfg.Dialer, key: int16(kmsg.EndTxn)}
		w.cfg.Dialer = lost.connect
		w.copies(100, func(round int) {
			if round%20 == 10 {
				lost.next.Store(true)
			}
		})
		if lost.count.Load() != 5 {
			w.Errorf("%d answers were lost", lost.count.Load())
		}
	})
}

// answersLost breaks connections right after a request of some kind was written.
type answersLost struct {
	dial  func(ctx context.Context, network, host string) (net.Conn, error)
	key   int16
	next  atomic.Bool // the next one
	count atomic.Int64
}

func (l *answersLost) connect(ctx context.Context, network, host string) (net.Conn, error) {
	c, err := l.dial(ctx, network, host)
	return &losingConn{Conn: c, l: l}, err
}

type losingConn struct {
	net.Conn
	l    *answersLost
	once sync.Once
	gone atomic.Bool
}

func (c *losingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil && len(b) > 6 && int16(b[4])<<8|int16(b[5]) == c.l.key && c.l.next.CompareAndSwap(true, false) {
		c.l.count.Add(1)
		c.gone.Store(true)
		c.once.Do(func() { time.AfterFunc(10*time.Millisecond, func() { c.Close() }) }) // the broker has it by then
	}
	return n, err
}

func (c *losingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.gone.Load() {
		return 0, errors.New("the connection was reset")
	}
	return n, err
}

func TestAnEndOfATransactionThatComesLateEndsNoOther(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		var ends, late atomic.Int64
		over := make(chan struct{})
		w.ends = append(w.ends, func() { close(over) })
		w.answers(kmsg.EndTxn, func(kmsg.Request) kmsg.Response {
			if ends.Add(1)%20 == 10 && late.Load() < 4 {
				late.Add(1)
				w.kafka.Cluster().SleepControl(func() {
					select {
					case <-time.After(25 * time.Second):
					case <-over:
					}
				})
			}
			return nil
		})
		w.copies(300, func(int) {})
		time.Sleep(time.Minute)
		if c := w.counts(); c["x"] != 300 || c["y"] != 300 || late.Load() == 0 {
			w.Errorf("%v were copied, %d ends of transactions came late", c, late.Load())
		}
	})
}

func TestACoordinatorThatMovesOrLoadsOnlyDelays(t *testing.T) {
	inCluster(t, 3, 2, func(w *world) {
		cluster := w.kafka.Cluster()
		var fault *kfake.FaultHandle
		w.copies(200, func(round int) {
			if round%10 == 0 {
				cluster.RehashCoordinators()
			}
			switch round {
			case 50:
				fault = cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn, kmsg.InitProducerID, kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup},
					TopLevel: true, Err: kerr.CoordinatorLoadInProgress, Count: -1},
					kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.OffsetFetch, kmsg.FindCoordinator}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
			case 150:
				fault.Remove()
			}
		})
		if fault.Hits() == 0 {
			w.Error("no request met a coordinator that loads")
		}
	})
}

func TestMembersThatJoinAndLeaveThreeTimesASecondNeitherLoseNorDouble(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		admin := w.admin()
		defer admin.Close()
		for _, name := range []string{"a", "b"} {
			_, m := w.member(name)
			w.until("ready", 30*time.Second, func() bool { return m.Ready() == nil })
		}
		sent := 0
		for round := range 20 {
			stop, _ := w.member(fmt.Sprint("guest", round))
			for range 10 {
				for p := range int32(4) {
					w.beat(p, fmt.Sprint("user", p))
				}
				sent++
				time.Sleep(30 * time.Millisecond)
			}
			if err := stop(); err != nil {
				w.Errorf("a guest that leaves during a rebalance: %v", err)
			}
			must.Get(admin.LeaveGroup(w.Context(), kadm.LeaveGroup("detector").InstanceIDs(fmt.Sprint("detector.guest", round))))(w)
		}
		w.until("all copied", 2*time.Minute, func() bool {
			c := w.counts()
			for p := range 4 {
				if c[fmt.Sprint("user", p)] != sent {
					return false
				}
			}
			return true
		})
	})
}

func TestAPartitionThatIsBeingRestoredIsNotReadyAndPublishesNothing(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		release := make(chan struct{})
		_, transform := w.memberOf("a", w.cfg, func(c *copier) processor.Task { return slow{c, release} })
		w.beat(0, "x")
		for range 20 {
			time.Sleep(time.Second)
			if err := transform.Ready(); err == nil {
				w.Fatal("it is ready while it is being restored")
			}
		}
		if err := transform.Ready(); !strings.Contains(err.Error(), "being restored") || w.counts()["x"] != 0 {
			w.Errorf("ready says %v, %d were copied", err, w.counts()["x"])
		}
		close(release)
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 1 && transform.Ready() == nil })
		w.noRestarts()
	})
}

// slow is a copier that takes its time to restore.
type slow struct {
	*copier
	release chan struct{}
}

func (s slow) Restore(ctx context.Context, at stream.Assignment, read stream.ReadFunc) error {
	<-s.release
	return s.copier.Restore(ctx, at, read)
}

func TestAStopWhileTheGroupHoldsAJoinIsNoErrorAndTheNextOwnerRepeatsWhatWasInHand(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		stop, _ := w.joined("a", 2)
		var held atomic.Bool
		over := make(chan struct{})
		w.ends = append(w.ends, func() { close(over) })
		w.answers(kmsg.JoinGroup, func(request kmsg.Request) kmsg.Response {
			if instance := request.(*kmsg.JoinGroupRequest).InstanceID; instance != nil && strings.HasSuffix(*instance, ".a") {
				held.Store(true)
				w.kafka.Cluster().SleepControl(func() { <-over })
			}
			return nil
		})
		_, b := w.member("b")
		w.until("the group holds the join of a", 30*time.Second, held.Load)
		w.beat(0, "x")
		w.beat(1, "y")
		if err := stop(); err != nil {
			w.Errorf("stopping: %v", err)
		}
		w.until("b has copied everything", time.Minute, func() bool {
			c := w.counts()
			return c["x"] == 1 && c["y"] == 1 && len(b.Status()) == 2
		})
	})
}
