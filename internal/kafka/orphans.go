package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// orphans tells of the transactions of other producers that hang, and gives those that no
// process of ours can end: their producer's id is that of no transactional id any more. A
// producer gets another id every 32,767 transactions, and a name that nobody uses is
// forgotten after a week. Ending them takes ClusterAction, so an operator does.
func (s *session) orphans(ctx context.Context, others []kadm.DescribedProducer) (orphans []kadm.DescribedProducer) {
	if len(others) == 0 {
		s.t.metrics.othersHang(0)
		return nil
	}
	var ids []int64
	for _, h := range others {
		ids = append(ids, h.ProducerID)
	}
	listed, err := kadm.NewClient(s.Client).ListTransactions(ctx, ids, nil)
	names := map[int64]kadm.ListedTransaction{}
	listed.Each(func(t kadm.ListedTransaction) { names[t.ProducerID] = t })
	hang := 0
	for _, h := range others {
		where := []any{"topic", h.Topic, "partition", h.Partition, "offset", h.CurrentTxnStartOffset, "producer", h.ProducerID, "epoch", h.ProducerEpoch}
		switch name, known := names[h.ProducerID]; {
		case known && name.State == "Ongoing":
			continue // its coordinator has it for open too, and will end it
		case known:
			s.t.log.Error("ALARM: a transaction of another process hangs: readers of this partition wait until a process of that name starts", append(where, "name", name.TxnID)...)
		case err != nil:
			s.t.log.Error("ALARM: a transaction of another process hangs, and whose it is is not known", append(where, "error", err)...)
		default:
			s.t.log.Error("ALARM: a transaction hangs whose producer id is no process's any more, or of none whose name this one may look up: readers of this partition wait until an operator ends it; see StillhereTransactionHangs in the runbook", where...)
			orphans = append(orphans, h)
		}
		hang++
	}
	s.t.metrics.othersHang(hang)
	return orphans
}

// save publishes again what orphans had committed, so that an operator who aborts them, which
// is all that Kafka's tools can do, takes nothing back.
func (s *session) save(ctx context.Context, orphans []kadm.DescribedProducer) error {
	if len(orphans) == 0 {
		return nil
	}
	commit, _, err := s.verdict(ctx, orphans)
	if err != nil {
		return err
	}
	if err := s.publishAgain(ctx, commit); err != nil {
		return fmt.Errorf("saving what orphaned transactions had committed: %w", err)
	}
	s.t.log.Warn("what the hanging transactions had committed is in the log once more: they can be aborted", "partitions", len(orphans))
	return nil
}
