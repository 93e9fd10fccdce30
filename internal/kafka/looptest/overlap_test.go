//go:build synctests

package looptest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// overlaps has somebody beat every 10 ms while a record takes as long as the end of a transaction, every tenth of
// which fails with an error. It returns how many ends began, and how many of them while a record
// was handled.
func overlaps(w *world, failure *kerr.Error) (ends, during int64) {
	const takes, beats = 20 * time.Millisecond, 300
	_, _, busy := w.slowOn(takes)
	var began, met atomic.Int64
	w.answers(kmsg.EndTxn, func(request kmsg.Request) kmsg.Response {
		if busy.Load() > 0 {
			met.Add(1)
		}
		w.kafka.Cluster().SleepControl(func() { time.Sleep(takes) })
		if n := began.Add(1); failure == nil || n%10 != 0 {
			return nil
		}
		response := request.ResponseKind().(*kmsg.EndTxnResponse)
		response.ErrorCode = failure.Code
		return response
	})
	for range beats {
		w.beat(0, "x")
		w.beat(1, "y")
		time.Sleep(takes / 2)
	}
	w.until("all copied", 10*time.Minute, func() bool { c := w.counts(); return c["x"] >= beats && c["y"] >= beats })
	time.Sleep(2 * time.Second)
	if c := w.counts(); c["x"] != beats || c["y"] != beats {
		w.Errorf("%d and %d records were copied, must be %d each", c["x"], c["y"], beats)
	}
	return began.Load(), met.Load()
}

func TestPartitionsHandleWhileATransactionEnds(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		if ends, during := overlaps(w, nil); during < ends/2 { // the first began and the last find nothing to handle
			w.Errorf("only %d of %d transactions ended while a record was handled", during, ends)
		}
	})
}

func TestWhatIsHandledWhileACommitFailsIsNeitherLostNorDoubled(t *testing.T) {
	for _, failure := range []*kerr.Error{kerr.UnknownServerError, kerr.TransactionAbortable, kerr.ProducerFenced} {
		t.Run(failure.Message, func(t *testing.T) { inWorld(t, 2, func(w *world) { overlaps(w, failure) }) })
	}
}
