//go:build synctests

package looptest

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// lostMarker makes the stand-in say that a transaction hangs in a partition of the transitions, as
// a broker does that lost its marker, until a transaction that the partition was
// added to has ended. It watches how that ends.
type lostMarker struct {
	producer int64
	epoch    int16
	last     int64 // instant of the last record

	mu       sync.Mutex
	unknown  bool // the partition does not tell
	ended    []bool
	added    bool
	failEnds int
	atEnd    func() // called at the next EndTxn, which is not carried out
}

func (l *lostMarker) install(w *world) {
	w.again = true
	locked := func(key kmsg.Key, handle func(kmsg.Request) kmsg.Response) {
		w.answers(key, func(request kmsg.Request) kmsg.Response {
			l.mu.Lock()
			defer l.mu.Unlock()
			return handle(request)
		})
	}
	locked(kmsg.DescribeProducers, func(request kmsg.Request) kmsg.Response {
		asked := request.(*kmsg.DescribeProducersRequest)
		if len(asked.Topics) != 1 || asked.Topics[0].Topic != w.name(schemas.Transitions) || len(l.ended) > 0 && !l.unknown {
			return nil
		}
		response := request.ResponseKind().(*kmsg.DescribeProducersResponse)
		topic, part := kmsg.NewDescribeProducersResponseTopic(), kmsg.NewDescribeProducersResponseTopicPartition()
		topic.Topic = asked.Topics[0].Topic
		if l.unknown {
			part.ErrorCode = kerr.NotLeaderForPartition.Code
		} else {
			producer := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			producer.ProducerID, producer.ProducerEpoch, producer.CurrentTxnStartOffset, producer.LastTimestamp = l.producer, int32(l.epoch), 0, l.last
			part.ActiveProducers = append(part.ActiveProducers, producer)
		}
		topic.Partitions = append(topic.Partitions, part)
		response.Topics = append(response.Topics, topic)
		return response
	})
	locked(kmsg.AddPartitionsToTxn, func(request kmsg.Request) kmsg.Response {
		for _, topic := range request.(*kmsg.AddPartitionsToTxnRequest).Topics {
			l.added = l.added || topic.Topic == w.name(schemas.Transitions)
		}
		return nil
	})
	locked(kmsg.InitProducerID, func(kmsg.Request) kmsg.Response {
		if l.added { // aborts what is open
			l.added, l.ended = false, append(l.ended, false)
		}
		return nil
	})
	locked(kmsg.EndTxn, func(request kmsg.Request) kmsg.Response {
		end := request.(*kmsg.EndTxnRequest)
		if end.ProducerID != l.producer || !l.added {
			return nil
		}
		if l.atEnd != nil {
			l.atEnd()
			l.atEnd = nil
			response := request.ResponseKind().(*kmsg.EndTxnResponse)
			response.ErrorCode = kerr.CoordinatorNotAvailable.Code
			return response
		}
		if l.failEnds > 0 {
			l.failEnds--
			response := request.ResponseKind().(*kmsg.EndTxnResponse)
			response.ErrorCode = kerr.UnknownServerError.Code
			return response
		}
		l.added, l.ended = false, append(l.ended, end.Commit)
		return nil
	})
}

func (l *lostMarker) ends() []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]bool(nil), l.ended...)
}

// commitsAs lets a member commit one copy of x and stop, and tells its transaction.
func (w *world) commitsAs(name string, copies int) schemas.Transaction {
	w.Helper()
	stop, transform := w.member(name)
	w.until(name+" has it", time.Minute, func() bool { return transform.Ready() == nil && len(transform.Status()) == 1 })
	w.beat(0, "x")
	w.until(name+" has copied", 10*time.Second, func() bool { return w.counts()["x"] == copies })
	text := must.Get(w.committed())(w)[0].Metadata
	transaction, ok := schemas.TransactionOn(text)
	if !ok {
		w.Fatalf("the offset names no transaction: %q", text)
	}
	must.Do(w, stop())
	return transaction
}

// endsIt starts a again, which aborts what the stand-in says that a has left open, after so many failures.
func (w *world) endsIt(of schemas.Transaction, failEnds int) {
	w.Helper()
	lost := &lostMarker{producer: of.Producer, epoch: of.Epoch, last: time.Now().Add(-time.Minute).UnixMilli(), failEnds: failEnds}
	lost.install(w)
	w.joined("a", 1)
	if ends := lost.ends(); len(ends) != 1 || ends[0] {
		w.Errorf("what hung was ended by (committed: true) %v", ends)
	}
}

func TestWhatWasCommittedAndHangsIsPublishedAgain(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.endsIt(w.commitsAs("a", 1), 0)
		w.publishedTimes(2)
	})
}

func TestWhatWasCommittedAndHangsIsPublishedAgainAlsoAfterOthersHaveCommitted(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		of := w.commitsAs("a", 1)
		w.commitsAs("b", 2)
		w.commitsAs("c", 3)
		w.endsIt(of, 0)
		w.publishedTimes(2)
		if got := w.counts()["x"]; got != 3 {
			w.Errorf("%d copies", got)
		}
	})
}

func TestWhatWasAbortedAndHangsIsNotPublished(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		of := w.commitsAs("a", 1)
		of.Epoch++ // the one after it
		w.endsIt(of, 0)
		w.publishedTimes(1)
	})
}

func TestAnErrorInEndingWhatHangsLosesNothingThatWasCommitted(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.endsIt(w.commitsAs("a", 1), 1)
		w.publishedTimes(2)
	})
}

// publishedTimes checks how often the first copy is in the transitions: twice after it was published again, since
// the stand-in has not really lost the first one.
func (w *world) publishedTimes(want int) {
	w.Helper()
	n := 0
	for _, r := range w.read(schemas.Transitions) {
		if string(r.Key) == "x" && binary.BigEndian.Uint64(r.Value) == 1 {
			n++
		}
	}
	if n != want {
		w.Errorf("the first copy is there %d times, not %d", n, want)
	}
}

func TestAKillInEndingWhatHangsLosesNothingThatWasCommitted(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		of := w.commitsAs("a", 1)
		time.Sleep(time.Hour) // nobody is there for a while
		wire, died := newWire(w.cfg.Dialer), make(chan struct{})
		lost := &lostMarker{producer: of.Producer, epoch: of.Epoch, last: time.Now().Add(-time.Hour).UnixMilli()}
		lost.atEnd = func() { wire.cut(); close(died) }
		lost.install(w)
		cfg, whole := w.cfg, w.producer
		cfg.Dialer = wire.connect
		producer := kafkatest.Producer(w, cfg)
		w.producer = producer // it dies with the member
		stop, _ := w.memberWith("a", cfg)
		w.producer = whole
		<-died
		must.Do(w, stop())
		over, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = producer.Close(over) // there is nothing that it could still write
		w.joined("a", 1)
		if ends := lost.ends(); len(ends) != 1 || ends[0] {
			w.Fatalf("the transaction that was to end it was not aborted: %v", ends)
		}
		w.publishedTimes(2)
	})
}

func TestATransactionThatHangsUnderAnUnknownIdIsStoredAndReported(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		of := w.commitsAs("a", 1)
		lost := &lostMarker{producer: of.Producer, epoch: of.Epoch, last: time.Now().Add(-time.Hour).UnixMilli()}
		lost.install(w)
		listed := true
		w.answers(kmsg.ListTransactions, func(request kmsg.Request) kmsg.Response {
			lost.mu.Lock()
			defer lost.mu.Unlock()
			if listed {
				return nil
			}
			return request.ResponseKind()
		})
		hanging := func() float64 {
			n, _ := w.series("stillhere_stream_others_hanging", map[string]string{"group": "detector"})
			return n
		}
		stop, _ := w.joined("b", 1)
		if n := hanging(); n != 1 {
			w.Errorf("%v transactions of others hang, it is one of a's", n)
		}
		if n := len(w.read(schemas.Transitions)); n != 1 {
			w.Errorf("b has published again what a will: there are %d records", n)
		}
		must.Do(w, stop())
		lost.mu.Lock()
		listed = false // a's producer has got another id
		lost.mu.Unlock()
		for range 2 { // the second time it is there already
			stop, _ = w.joined("b", 1)
			if n := hanging(); n != 1 {
				w.Errorf("%v transactions of others hang, it is one that was a's", n)
			}
			w.publishedTimes(2)
			must.Do(w, stop())
		}
		if ends := lost.ends(); len(ends) != 0 {
			w.Errorf("somebody else's transaction was ended by (committed: true) %v", ends)
		}
		stop, transform := w.member("b")
		defer func() { _ = stop() }()
		w.has("b is ready for the last time", transform, 1)
		lost.mu.Lock()
		lost.ended = append(lost.ended, false) // by the operator
		lost.mu.Unlock()
		w.until("b has seen that it is over", 3*time.Minute, func() bool { return hanging() == 0 })
	})
}

func TestAPartitionThatDoesNotReportWhatHangsIsAskedAgain(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		of := w.commitsAs("a", 1)
		lost := &lostMarker{producer: of.Producer, epoch: of.Epoch, last: time.Now().Add(-time.Minute).UnixMilli(), unknown: true}
		lost.install(w)
		_, transform := w.member("a")
		time.Sleep(20 * time.Second)
		if len(transform.Status()) != 0 {
			w.Error("it goes on although a partition did not tell")
		}
		lost.mu.Lock()
		lost.unknown = false
		lost.mu.Unlock()
		w.has("ready again", transform, 1)
		if n := w.metric("hanging_transactions_total"); n != 1 {
			w.Errorf("%d were ended", n)
		}
	})
}
