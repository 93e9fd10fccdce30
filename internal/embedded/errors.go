package embedded

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Errors are the requests that the cluster answers with errors.
type Errors struct{ handle *kfake.FaultHandle }

// ErrorsAtRandom answers write requests with errors of real brokers, each error for one request in
// oneIn. The cluster carries out some of these requests, most not. A producer without
// transactions gets only errors after which it may retry.
func (k *Kafka) ErrorsAtRandom(seed uint64, oneIn int) *Errors {
	var faults []kfake.Fault
	add := func(key kmsg.Key, topLevel bool, which func(kmsg.Request) bool, with ...*kerr.Error) {
		for _, err := range with {
			random := rand.New(rand.NewPCG(seed, uint64(len(faults)))) // the cluster's goroutine's
			faults = append(faults, kfake.Fault{Keys: []kmsg.Key{key}, TopLevel: topLevel, Err: err, Count: -1,
				When: func(r kmsg.Request) bool { return which(r) && random.IntN(oneIn) == 0 }})
		}
	}
	all := func(kmsg.Request) bool { return true }
	transactional := func(r kmsg.Request) bool { return r.(*kmsg.ProduceRequest).TransactionID != nil }
	// The cluster carries these out; the answer leaves that open.
	add(kmsg.Produce, false, all, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend)
	add(kmsg.TxnOffsetCommit, false, all, kerr.RequestTimedOut)
	// Not carried out.
	add(kmsg.Produce, false, all, kerr.NotLeaderForPartition, kerr.NotEnoughReplicas)
	add(kmsg.Produce, false, transactional, kerr.KafkaStorageError, kerr.UnknownServerError,
		kerr.OutOfOrderSequenceNumber)
	add(kmsg.AddPartitionsToTxn, false, all, kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress)
	add(kmsg.TxnOffsetCommit, false, all, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.IllegalGeneration)
	add(kmsg.EndTxn, true, all, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable,
		kerr.ConcurrentTransactions, kerr.RequestTimedOut, kerr.UnknownServerError, kerr.TransactionAbortable,
		kerr.InvalidTxnState)
	return &Errors{k.cluster.Fault(faults...)}
}

// Count is how many requests were answered with errors so far.
func (e *Errors) Count() int { return e.handle.Hits() }

// Stop ends the errors.
func (e *Errors) Stop() { e.handle.Remove() }
