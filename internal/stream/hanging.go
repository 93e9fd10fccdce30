package stream

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/schemas"
)

// A hanging transaction is one that a partition holds for open and its
// coordinator for ended. Readers of what is committed wait at it for ever, and our
// next commit to the partition would commit what was aborted. Apache Kafka leaves
// such ones behind when a broker dies at the wrong instant (seen with 4.3.1, see
// DESIGN.md), brokers before 4.0 also when a write is overtaken by the end of its
// transaction (KIP-890).

// endHanging aborts the hanging transactions of the producer. It may be called only
// when the coordinator has just given out the producer's id: none of its
// transactions is open then, whatever a partition says.
//
// Writing to the partition in a new transaction joins the old one, and the marker of
// the new one's abort ends both. It takes no right that the writer does not have.
func (s *session) endHanging(ctx context.Context, producer int64) error {
	hanging := s.hanging(ctx, producer)
	if len(hanging) == 0 {
		return nil
	}
	for _, h := range hanging {
		s.t.log.Error("a transaction of ours hangs: Kafka has aborted it, but not in this partition; aborting it there",
			"topic", h.Topic, "partition", h.Partition, "offset", h.CurrentTxnStartOffset, "producer", producer, "epoch", h.ProducerEpoch)
	}
	if err := s.BeginTransaction(); err != nil {
		return fmt.Errorf("beginning a transaction to end those that hang: %w", err)
	}
	records := make([]*kgo.Record, len(hanging))
	for i, h := range hanging {
		// Compacted topics take no record without a key.
		records[i] = &kgo.Record{Topic: h.Topic, Partition: h.Partition, Key: []byte("hanging")}
	}
	if err := s.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("writing to the partitions of hanging transactions: %w", err)
	}
	if err := s.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return fmt.Errorf("aborting hanging transactions: %w", err)
	}
	s.t.metrics.ended(len(hanging))
	if left := s.hanging(ctx, producer); len(left) > 0 {
		return fmt.Errorf("%d transactions still hang after they were aborted, the first in %s partition %d", len(left), left[0].Topic, left[0].Partition)
	}
	return nil
}

// hanging are the open transactions of the producer, as far as the brokers tell:
// those before 2.8 do not know the question, and a topic that we may not read is
// left out.
func (s *session) hanging(ctx context.Context, producer int64) (open []kadm.DescribedProducer) {
	topics := kadm.TopicsSet{}
	for _, spec := range schemas.Topics() {
		if spec.Topic == schemas.Heartbeats { // never written in a transaction
			continue
		}
		name := spec.Topic.Name(s.t.cfg.Prefix)
		count, err := partitionCount(ctx, s.Client, name)
		if err != nil {
			s.t.log.Debug("not looked at for hanging transactions", "topic", name, "error", err)
			continue
		}
		for partition := range count {
			topics.Add(name, partition)
		}
	}
	described, err := kadm.NewClient(s.Client).DescribeProducers(ctx, topics)
	if err != nil {
		s.t.log.Warn("cannot look for hanging transactions", "error", err)
	}
	described.EachPartition(func(p kadm.DescribedProducersPartition) {
		if p.Err != nil {
			s.t.log.Debug("not looked at for hanging transactions", "topic", p.Topic, "partition", p.Partition, "error", p.Err)
			return
		}
		p.ActiveProducers.Each(func(active kadm.DescribedProducer) {
			if active.ProducerID == producer && active.CurrentTxnStartOffset >= 0 {
				open = append(open, active)
			}
		})
	})
	return open
}
