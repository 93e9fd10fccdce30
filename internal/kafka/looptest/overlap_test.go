//go:build synctests

package looptest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// overlaps has somebody beat every 10 ms while a record takes as long as the end of a transaction, every tenth of
// which fails with an error. It returns how many ends began while a record was handled.
func overlaps(w *world, failure *kerr.Error) (during int64) {
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
	return met.Load()
}

// A commit that is due at once begins with nothing handed out, so few ends of a world overlap, and in one of 15 worlds
// none does.
func TestPartitionsHandleWhileATransactionEnds(t *testing.T) {
	var during atomic.Int64
	t.Run("worlds", func(t *testing.T) { // ends when all of them have
		for i := range 5 {
			t.Run(fmt.Sprint(i), func(t *testing.T) { inWorld(t, 2, func(w *world) { during.Add(overlaps(w, nil)) }) })
		}
	})
	if during.Load() == 0 {
		t.Error("no transaction ended while a record was handled")
	}
}

func TestWhatIsHandledWhileACommitFailsIsNeitherLostNorDoubled(t *testing.T) {
	for _, failure := range []*kerr.Error{kerr.UnknownServerError, kerr.TransactionAbortable, kerr.ProducerFenced} {
		t.Run(failure.Message, func(t *testing.T) { inWorld(t, 2, func(w *world) { overlaps(w, failure) }) })
	}
}
