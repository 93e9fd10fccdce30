package hanging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/schemas"
)

// Ender finds and ends the hanging transactions of a processor.
type Ender struct {
	*member.Loop
	Client  *kgo.Client     // of the transactional id
	Outputs []schemas.Topic // that the transactions write to
}

// Age is how long after its last record an open transaction of another producer is reported as
// hanging. It is far beyond the transaction timeout.
const Age = time.Minute

// consumerOffsets holds the offsets of transactions.
const consumerOffsets = "__consumer_offsets"

// transactions are open transactions, one for each partition that has it open.
type transactions = []kadm.DescribedProducer

// Count returns in how many partitions a transaction of the producer has been open for longer than
// age. It reports those of others.
func (e *Ender) Count(ctx context.Context, producer int64, age time.Duration) (n int, err error) {
	own, others, err := e.find(ctx, producer)
	if err == nil {
		e.reportOthers(ctx, others)
	}
	for _, h := range own {
		if time.Since(time.UnixMilli(h.LastTimestamp)) > age {
			n++
		}
	}
	return n, err
}

// find returns the open transactions of the producer, and those of others that are older than Age.
// It fails if the brokers refuse the question, or a partition does not answer. Not every user may
// ask about the offsets, so a refusal there is none; brokers before 2.8 do not know the question.
func (e *Ender) find(ctx context.Context, producer int64) (own, others transactions, err error) {
	asks := func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == int16(kmsg.DescribeProducers) }
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, e.Client)
	if err == nil && versions.ErrorCode == 0 && !slices.ContainsFunc(versions.ApiKeys, asks) {
		return nil, nil, nil
	}
	names := []string{consumerOffsets}
	for _, topic := range e.Outputs {
		names = append(names, topic.Name(e.Config.Prefix))
	}
	for _, name := range names {
		// One by one: a topic that is refused would hide the others in the answer.
		described, fault := kadm.NewClient(e.Client).DescribeProducers(ctx, kadm.TopicsSet{name: nil})
		described.EachPartition(func(p kadm.DescribedProducersPartition) {
			if p.Err != nil && fault == nil {
				fault = fmt.Errorf("partition %d: %w", p.Partition, p.Err)
			}
		})
		refused := (*kadm.AuthError)(nil)
		switch {
		case fault == nil:
		case name == consumerOffsets:
			e.Log.Debug("cannot look for hanging transactions in this topic", "topic", name, "error", fault)
		case errors.As(fault, &refused):
			fault = kafka.WithGrantHint(refused.Err, "Read", kafka.OfTopic, name)
			return nil, nil, fmt.Errorf("looking for hanging transactions: %w", fault)
		default:
			return nil, nil, fmt.Errorf("looking for hanging transactions in %s: %w", name, fault)
		}
		described.EachProducer(func(active kadm.DescribedProducer) {
			switch {
			case active.CurrentTxnStartOffset < 0:
			case active.ProducerID == producer:
				own = append(own, active)
			case name != consumerOffsets && time.Since(time.UnixMilli(active.LastTimestamp)) > Age:
				others = append(others, active)
			}
		})
	}
	return own, others, nil
}

// logOf logs about a hanging transaction.
func (e *Ender) logOf(h kadm.DescribedProducer) *slog.Logger {
	return e.Log.With("topic", h.Topic, "partition", h.Partition, "offset", h.CurrentTxnStartOffset,
		"producer", h.ProducerID, "epoch", h.ProducerEpoch)
}

// reportOthers logs the hanging transactions of other producers and returns the orphans: those
// whose producer id is that of no transactional id any more. A producer gets another id every
// 32,767 transactions, and Kafka forgets a transactional id that nobody used for a week.
func (e *Ender) reportOthers(ctx context.Context, others transactions) (orphans transactions) {
	if len(others) == 0 {
		e.Metrics.SetForeignHanging(0)
		return nil
	}
	var ids []int64
	for _, h := range others {
		ids = append(ids, h.ProducerID)
	}
	listed, err := kadm.NewClient(e.Client).ListTransactions(ctx, ids, nil)
	names := map[int64]kadm.ListedTransaction{}
	listed.Each(func(t kadm.ListedTransaction) { names[t.ProducerID] = t })
	hanging := 0
	for _, h := range others {
		log := e.logOf(h)
		switch name, known := names[h.ProducerID]; {
		case known && name.State == "Ongoing":
			continue // its coordinator holds it for open too, and will end it
		case known:
			log.Error("ALARM: a transaction of another process hangs: "+
				"readers of this partition wait until a process with that name starts", "name", name.TxnID)
		case err != nil:
			log.Error("ALARM: a transaction of an unknown process hangs", "error", err)
		default:
			log.Error("ALARM: a transaction hangs whose producer id no longer belongs to a process, " +
				"or to one that this process may look up: " +
				"readers of this partition wait until an operator ends it; see StillhereTransactionHangs in the runbook")
			orphans = append(orphans, h)
		}
		hanging++
	}
	e.Metrics.SetForeignHanging(hanging)
	return orphans
}
