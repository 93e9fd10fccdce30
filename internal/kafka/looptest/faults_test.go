//go:build synctests

package looptest

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestATransactionThatFailsIsDoneAgainOnce(t *testing.T) {
	txn := "detector.a"
	for name, fault := range map[string]kfake.Fault{
		"the end is refused":              {Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: txn, TopLevel: true, Err: kerr.UnknownServerError, Count: 2},
		"the end says abort":              {Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: txn, TopLevel: true, Err: kerr.TransactionAbortable, Count: 2},
		"the end is fenced":               {Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: txn, TopLevel: true, Err: kerr.ProducerFenced, Count: 1},
		"the answer of the end is lost":   {Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: txn, TopLevel: true, Err: kerr.RequestTimedOut, Count: 1},
		"a produce fails for good":        {Keys: []kmsg.Key{kmsg.Produce}, Topic: "presence.status", Err: kerr.InvalidRecord, Count: 1},
		"a produce has an old epoch":      {Keys: []kmsg.Key{kmsg.Produce}, Topic: "presence.transitions", Err: kerr.InvalidProducerEpoch, Count: 1},
		"a produce is not for the leader": {Keys: []kmsg.Key{kmsg.Produce}, Topic: "presence.transitions", Err: kerr.NotLeaderForPartition, Count: 3},
		"the offsets are refused":         {Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.IllegalGeneration, Count: 1},
		"the member is unknown":           {Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "detector", TopLevel: true, Err: kerr.UnknownMemberID, Count: 1},
		"the instance is fenced":          {Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "detector", TopLevel: true, Err: kerr.FencedInstanceID, Count: 1},
		"the coordinator moves":           {Keys: []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.EndTxn}, Err: kerr.NotCoordinator, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.joined("a", 2)
				w.beat(0, "x")
				w.beat(1, "y")
				handle := w.kafka.Cluster().Fault(fault)
				for range 20 {
					w.beat(0, "x")
					w.beat(1, "y")
					time.Sleep(100 * time.Millisecond)
				}
				if handle.Hits() == 0 {
					w.Fatal("the fault was never met")
				}
				w.until("all copied", 90*time.Second, func() bool { c := w.counts(); return c["x"] == 21 && c["y"] == 21 })
			})
		})
	}
}

func TestAMemberThatComesTakesPartitionsWithoutALossOrADouble(t *testing.T) {
	onEach(t, 8, func(w *world) {
		_, a := w.joined("a", 8)
		sent := 0
		send := func(rounds int) {
			for range rounds {
				sent++
				for p := range int32(8) {
					w.beat(p, fmt.Sprint("user", p))
				}
				time.Sleep(30 * time.Millisecond)
			}
		}
		send(20)
		stopB, b := w.member("b")
		send(100)
		w.until("four partitions each", 30*time.Second, func() bool {
			return a.Ready() == nil && b.Ready() == nil && len(a.Status()) == 4 && len(b.Status()) == 4
		})
		send(20)
		must.Do(w, stopB())
		// b does not leave: it may come back. After its session a has all.
		send(20)
		w.until("all with a", 60*time.Second, func() bool { return a.Ready() == nil && len(a.Status()) == 8 })
		send(20)
		all := func() bool {
			c := w.counts()
			for p := range 8 {
				if c[fmt.Sprint("user", p)] != sent {
					return false
				}
			}
			return true
		}
		w.until("all copied", 30*time.Second, all)
		w.noRestarts()
		if n := len(w.made("a", 0)) + len(w.made("b", 0)); n > 3 {
			w.Errorf("partition 0 was restored %d times", n)
		}
	})
}

func TestARestartedMemberGoesOnWithItsPartitionsAtOnce(t *testing.T) {
	onEach(t, 2, func(w *world) {
		stop, _ := w.joined("a", 2)
		for range 5 {
			w.beat(0, "x")
		}
		w.until("copied", 5*time.Second, func() bool { return w.counts()["x"] == 5 })
		must.Do(w, stop())
		offset, _ := w.commits(0)
		w.beat(0, "x")
		begun := time.Now()
		w.joined("a", 2)
		if took := time.Since(begun); took > 2*time.Second {
			w.Errorf("taking up the partitions again took %s", took)
		}
		w.until("copied", 5*time.Second, func() bool { return w.counts()["x"] == 6 })
		again := w.made("a", 0)[1]
		if _, first := again.seen(); first != offset {
			w.Errorf("went on at offset %d, committed was %d", first, offset)
		}
		if again.restored == 0 || again.replayed == 0 || again.commit.Offset != offset || again.commit.Partitions != 2 || again.commit.LogEnd <= offset {
			w.Errorf("restored %d status records and %d heartbeats from %+v", again.restored, again.replayed, again.commit)
		}
	})
}

func TestStoppingCommitsWhatIsInHand(t *testing.T) {
	onEach(t, 1, func(w *world) {
		stop, _ := w.joined("a", 1)
		w.beat(0, "x")
		w.until("handled", 5*time.Second, func() bool { _, first := w.made("a", 0)[0].seen(); return first >= 0 })
		time.Sleep(300 * time.Millisecond) // a tick has been handled, which waits for the idle commit
		must.Do(w, stop())
		task := w.made("a", 0)[0]
		if offset, _ := w.commits(0); offset != task.next {
			w.Errorf("committed %d, handled up to %d", offset, task.next)
		}
	})
}

func TestTicksFlowAndOnlyWhereAPartitionRuns(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		stop, _ := w.joined("a", 2)
		task := w.made("a", 1)[0]
		before, _ := task.seen()
		time.Sleep(10 * time.Second)
		if after, _ := task.seen(); after-before < 38 || after-before > 41 {
			w.Errorf("%d ticks in 10 s", after-before)
		}
		must.Do(w, stop())
		all := len(w.read(schemas.Heartbeats))
		time.Sleep(10 * time.Second)
		if now := len(w.read(schemas.Heartbeats)); now != all {
			w.Errorf("%d ticks without an owner", now-all)
		}
	})
}

func TestARejectedRecordIsADeadLetterWithItsOrigin(t *testing.T) {
	onEach(t, 2, func(w *world) {
		w.joined("a", 2)
		sent := schemas.Outgoing{Topic: schemas.Heartbeats, Partition: 1, Key: []byte("bad"), Value: []byte("junk"), Headers: []schemas.Header{{Key: "own", Value: []byte("1")}}}
		must.Do(w, w.producer.AppendSync(w.Context(), sent))
		w.beat(1, "x")
		w.until("copied", 5*time.Second, func() bool { return w.counts()["x"] == 1 })
		letters := w.read(schemas.DeadLetter)
		if len(letters) != 1 {
			w.Fatalf("%d dead letters", len(letters))
		}
		letter := letters[0]
		heartbeats := w.read(schemas.Heartbeats)
		var origin schemas.Record
		for _, r := range heartbeats {
			if string(r.Key) == "bad" {
				origin = r
			}
		}
		want := map[string]string{
			kafka.HeaderOriginTopic: w.name(schemas.Heartbeats), kafka.HeaderOriginPartition: "1", kafka.HeaderOriginOffset: fmt.Sprint(origin.Offset),
			kafka.HeaderOriginTimestamp: fmt.Sprint(int64(origin.Time)), kafka.HeaderGroup: w.cfg.GroupName("detector"), kafka.HeaderErrorCode: "malformed",
			kafka.HeaderError: "frame: is bad", "own": "1",
		}
		for name, value := range want {
			if got := string(letter.Header(name)); got != value {
				w.Errorf("header %s is %q, want %q", name, got, value)
			}
		}
		if string(letter.Key) != "bad" || string(letter.Value) != "junk" {
			w.Errorf("key %q, value %q", letter.Key, letter.Value)
		}
	})
}

func TestAForwardIsAppendedOutsideOfTheTransactionAndHandled(t *testing.T) {
	onEach(t, 2, func(w *world) {
		w.joined("a", 2)
		w.beat(0, "forward")
		w.until("forwarded", 5*time.Second, func() bool { return w.counts()["forwarded"] == 1 })
	})
}

func TestAPartitionWithoutProgressIsNoticedAndRestarted(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.joined("a", 1)
		// Fetching fails in a way that the client takes for passing.
		fault := w.kafka.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "presence.heartbeats", Err: kerr.ReplicaNotAvailable, Count: -1})
		w.until("restarted", 40*time.Second, func() bool { return w.metric("session_restarts_total", "reason", "stall") >= 1 })
		fault.Remove()
		w.beat(0, "x")
		w.until("copied", 60*time.Second, func() bool { return w.counts()["x"] == 1 })
	})
}

func TestAMarkerAmongTheHeartbeatsIsNotAMissingRecord(t *testing.T) {
	onEach(t, 1, func(w *world) {
		write := w.transactional("strange")
		w.joined("a", 1)
		write(schemas.Heartbeats, "x", kgo.TryCommit)
		w.beat(0, "x")
		write(schemas.Heartbeats, "x", kgo.TryAbort)
		w.beat(0, "x")
		w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 4 })
		if n := w.metric("gaps_total"); n != 0 {
			w.Errorf("records are said to be missing %d times", n)
		}
	})
}

func TestATaskThatHangsIsLeftBehind(t *testing.T) {
	onEach(t, 1, func(w *world) {
		release := make(chan struct{})
		defer close(release)
		first := true
		stop, _ := w.memberOf("a", w.cfg, func(c *copier) processor.Task {
			if first {
				first = false
				return hanging{c, release}
			}
			return c
		})
		w.beat(0, "x")
		w.until("copied by another", 90*time.Second, func() bool { return w.counts()["x"] == 1 })
		if n := w.metric("session_restarts_total", "reason", "stall"); n != 1 {
			w.Errorf("%d restarts", n)
		}
		must.Do(w, stop())
	})
}

type hanging struct {
	*copier
	release chan struct{}
}

func (h hanging) Handle(*schemas.Record, *stream.Outbox) error { <-h.release; return nil }

// copyTen runs member a until it has copied ten records, and stops it.
func (w *world) copyTen() {
	w.Helper()
	stop, _ := w.joined("a", 1)
	for range 10 {
		w.beat(0, "x")
	}
	w.until("copied", 10*time.Second, func() bool { return w.counts()["x"] == 10 })
	must.Do(w, stop())
}

func TestALogThatWasTruncatedOrOvertakenIsReportedToTheTask(t *testing.T) {
	onEach(t, 1, func(w *world) {
		w.copyTen()
		committed, _ := w.commits(0)
		for range 5 {
			w.beat(0, "x")
		}
		// Retention overtakes the commit.
		w.deleteRecords(schemas.Heartbeats, 0, committed+3)
		all := 10
		for _, r := range w.read(schemas.Heartbeats) { // a tick may have been on its way when the member stopped
			if string(r.Key) == "x" {
				all++
			}
		}
		w.member("a")
		w.until("the rest copied", 30*time.Second, func() bool { return w.counts()["x"] == all })
		task := w.made("a", 0)[1]
		if _, first := task.seen(); first != committed+3 || task.commit.Offset != committed || task.commit.LogStart != committed+3 {
			w.Errorf("first handled %d; told %+v; committed %d", first, task.commit, committed)
		}
	})
}

func TestARecreatedTopicIsReadFromItsStart(t *testing.T) {
	onEach(t, 1, func(w *world) {
		w.copyTen()
		w.remake(schemas.Heartbeats)
		w.beat(0, "x")
		w.member("a")
		w.until("the new one copied", 30*time.Second, func() bool { return w.counts()["x"] == 11 })
		if _, first := w.made("a", 0)[1].seen(); first != 0 {
			w.Errorf("first handled %d", first)
		}
	})
}
