package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/processor/owners"
	"github.com/stillhere/stillhere/schemas"
)

// A hanging transaction is one that a partition holds for open and its
// coordinator for ended. Readers of what is committed wait at it for ever, and our
// next transaction in that partition would take it along. Apache Kafka 4.3.1 leaves
// such ones behind when a partition has no leader while its marker is due (see
// DESIGN.md), brokers before 4.0 when a write is overtaken by the end of its
// transaction (KIP-890).

// consumerOffsets is where the offsets of transactions are.
const consumerOffsets = "__consumer_offsets"

// errHanging ends a session that found hanging transactions of its own and has
// ended them; the next one begins when Kafka has written the markers.
var errHanging = errors.New("ended transactions of this process were still open in Kafka; they are ended now")

// endHanging ends the hanging transactions of the producer. It may be called only
// when the coordinator has just given out the producer's id: none of its
// transactions is open then, whatever a partition says. It returns errHanging if
// there were any: the client's idea of the producer's epoch is out of date then.
//
// They are ended by a new transaction that the partitions are added to: its markers
// end the old one as well. That takes no right that the writer does not have. But from the
// moment in which they are added until that transaction ends, anything that goes wrong aborts
// it, the end of this process included. So what is to be committed is published again
// before, under the same ids.
func (s *session) endHanging(ctx context.Context, producer int64, epoch int16) error {
	hanging, others, err := s.hanging(ctx, producer)
	if err != nil {
		return err
	}
	if err := s.republishOrphans(ctx, s.findOrphans(ctx, others)); err != nil {
		return err
	}
	if len(hanging) == 0 {
		return nil
	}
	commit, abort, err := s.outcomes(ctx, hanging)
	if err != nil {
		return err
	}
	end := hangingEnder{s, producer, epoch}
	if len(commit) > 0 {
		if err := s.republish(ctx, commit); err != nil {
			return err
		}
		if err := end.addPartitions(ctx, commit); err != nil {
			return err
		}
		if err := end.end(ctx, true); err != nil {
			return err
		}
	}
	// The offsets also when they do not seem to hang: not everybody may ask. They are
	// never committed: what is read again gives the same.
	if err := end.addPartitions(ctx, abort); err != nil {
		return err
	}
	if err := end.addOffsets(ctx); err != nil {
		return err
	}
	if err := end.end(ctx, false); err != nil {
		return err
	}
	s.proc.metrics.HangingEnded(len(hanging))
	return errHanging
}

// hanging are the open transactions of the producer, and those of others in which nothing was
// written for longer than any may last. An error is that we may not ask, or
// that some partition does not tell; about the offsets not everybody may ask, and brokers before 2.8
// do not know the question.
func (s *session) hanging(ctx context.Context, producer int64) (open, others []kadm.DescribedProducer, err error) {
	if !s.brokersSupport(ctx, kmsg.DescribeProducers) {
		return nil, nil, nil
	}
	names := []string{consumerOffsets}
	for _, topic := range s.proc.outputs {
		names = append(names, topic.Name(s.proc.cfg.Prefix))
	}
	admin := kadm.NewClient(s.Client)
	for _, name := range names {
		// One by one: the answer about a topic that is refused hides the others.
		described, fault := admin.DescribeProducers(ctx, kadm.TopicsSet{name: nil})
		described.EachPartition(func(p kadm.DescribedProducersPartition) {
			if p.Err != nil && fault == nil {
				fault = fmt.Errorf("partition %d: %w", p.Partition, p.Err)
			}
		})
		refused := (*kadm.AuthError)(nil)
		switch {
		case fault == nil:
		case name == consumerOffsets:
			s.proc.log.Debug("cannot look for hanging transactions in this topic", "topic", name, "error", fault)
		case errors.As(fault, &refused):
			return nil, nil, fmt.Errorf("looking for hanging transactions: %w", kafka.WithGrantHint(refused.Err, "Read", kafka.OfTopic, name))
		default:
			return nil, nil, fmt.Errorf("looking for hanging transactions in %s: %w", name, fault)
		}
		described.EachProducer(func(active kadm.DescribedProducer) {
			switch {
			case active.CurrentTxnStartOffset < 0:
			case active.ProducerID == producer:
				open = append(open, active)
			case name != consumerOffsets && time.Since(time.UnixMilli(active.LastTimestamp)) > hangingAge:
				others = append(others, active)
			}
		})
	}
	return open, others, nil
}

// hangingAge is how long a transaction may seem open before it is looked at as one
// that hangs, and how often that is looked for. Far beyond the transaction timeout.
const hangingAge = time.Minute

// lastEpochs is where a producer's epochs begin to run out: when they have, it is given
// another id, and what hangs under the one before can be ended by an operator only; see orphans. At 50
// transactions a second that is every eleven minutes, with a minute left from here.
const lastEpochs = 30_000

// hangingCheckInterval is hangingAge for this session now.
func (s *session) hangingCheckInterval() time.Duration {
	if s.epoch.Load() < lastEpochs {
		return hangingAge
	}
	return min(2*s.proc.transactionTimeout(), hangingAge)
}

// countHanging is in how many partitions a transaction of this session hangs. A new
// session ends them.
func (s *session) countHanging() (n int, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	producer, _, err := s.ProducerID(ctx)
	if err != nil {
		return 0, err
	}
	open, others, err := s.hanging(ctx, producer)
	if err == nil {
		s.findOrphans(ctx, others)
	}
	for _, h := range open {
		if time.Since(time.UnixMilli(h.LastTimestamp)) > s.hangingCheckInterval() {
			n++
		}
	}
	return n, err
}

// outcomes tells how hanging transactions had ended, by what the group's offsets say of
// the producer; see the package owners. Where they do not tell, as after an older program, records are
// committed: aborted ones come again with the same ids anyway, while committed
// ones would be lost. Offsets are always aborted.
func (s *session) outcomes(ctx context.Context, hanging []kadm.DescribedProducer) (commit, abort []kadm.DescribedProducer, err error) {
	offsets, err := kadm.NewClient(s.Client).FetchOffsetsForTopics(ctx, s.proc.group, s.name)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("asking how hanging transactions had ended: %w", kafka.WithGrantHint(err, "Describe", kafka.OfGroup, s.proc.group))
	}
	last := map[int64]owners.Owner{} // by producer
	told, complete := false, true
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.At < 0 {
			return
		}
		named, all := owners.Decode(o.Metadata)
		told, complete = true, complete && all
		for _, o := range named {
			if known, ok := last[o.Producer]; !ok || o.Epoch > known.Epoch || o.Epoch == known.Epoch && o.At > known.At {
				last[o.Producer] = o
			}
		}
	})
	unique := s.epochPerTransaction(ctx)
	for _, h := range hanging {
		how := "aborted"
		of, found := last[h.ProducerID]
		switch {
		case h.Topic == consumerOffsets:
			abort = append(abort, h)
		case found && of.Committed(h, unique):
			how, commit = "committed", append(commit, h)
		case !told || !complete:
			how, commit = "not known; its records are committed", append(commit, h)
		default:
			abort = append(abort, h)
		}
		s.proc.log.Error("a transaction of this process hangs: its coordinator has ended it, this partition has not",
			"topic", h.Topic, "partition", h.Partition, "offset", h.CurrentTxnStartOffset, "producer", h.ProducerID, "epoch", h.ProducerEpoch, "outcome", how)
	}
	return commit, abort, nil
}

// republish publishes what these transactions had committed, under the same ids.
func (s *session) republish(ctx context.Context, hanging []kadm.DescribedProducer) error {
	records, err := s.hangingRecords(ctx, hanging)
	if err != nil {
		return fmt.Errorf("before ending hanging transactions: %w", err)
	}
	if len(records) == 0 {
		return nil
	}
	return s.proc.producer.Republish(ctx, records)
}

// hangingRecords are the records that hang, as they are to be published again: those that have not been
// already, and of states only those of which there is none later in the log.
func (s *session) hangingRecords(ctx context.Context, hanging []kadm.DescribedProducer) (all []*kgo.Record, err error) {
	for _, h := range hanging {
		var ours []*kgo.Record
		later := map[string]int64{}  // by key, offsets of others' records
		already := map[string]bool{} // these, as same says
		err := s.proc.reader.ReadRaw(ctx, h.Topic, h.Partition, h.CurrentTxnStartOffset, func(r *kgo.Record) {
			if r.ProducerID != h.ProducerID {
				later[string(r.Key)] = r.Offset
				already[recordIdentity(r)] = true
			} else {
				ours = append(ours, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
					Key: slices.Clone(r.Key), Value: slices.Clone(r.Value), Headers: r.Headers, Timestamp: r.Timestamp})
			}
		})
		if err != nil {
			return nil, err
		}
		ours = slices.DeleteFunc(ours, func(r *kgo.Record) bool { return already[recordIdentity(r)] })
		if h.Topic == schemas.Statuses.Name(s.proc.cfg.Prefix) {
			ours = slices.DeleteFunc(ours, func(r *kgo.Record) bool { return later[string(r.Key)] > r.Offset })
		}
		all = append(all, ours...)
	}
	return all, nil
}

// recordIdentity is equal for two records that say the same.
func recordIdentity(r *kgo.Record) string { return fmt.Sprintf("%d %s%s", len(r.Key), r.Key, r.Value) }

// epochPerTransaction tells whether the cluster gives every transaction an epoch of its
// own (KIP-890, second part).
func (s *session) epochPerTransaction(ctx context.Context) bool {
	response, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, s.Client)
	if err != nil || response.ErrorCode != 0 {
		return false
	}
	return slices.ContainsFunc(response.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == "transaction.version" && f.MaxVersionLevel >= 2
	})
}

// brokersSupport tells whether the brokers know a request; when they do not say, they do.
func (s *session) brokersSupport(ctx context.Context, key kmsg.Key) bool {
	response, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, s.Client)
	return err != nil || response.ErrorCode != 0 ||
		slices.ContainsFunc(response.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == int16(key) })
}

// findOrphans tells of the transactions of other producers that hang, and gives those that no
// process of ours can end: their producer's id is that of no transactional id any more. A
// producer gets another id every 32,767 transactions, and a name that nobody uses is
// forgotten after a week. Ending them takes ClusterAction, so an operator does.
func (s *session) findOrphans(ctx context.Context, others []kadm.DescribedProducer) (orphans []kadm.DescribedProducer) {
	if len(others) == 0 {
		s.proc.metrics.SetForeignHanging(0)
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
			s.proc.log.Error("ALARM: a transaction of another process hangs: readers of this partition wait until a process with that name starts", append(where, "name", name.TxnID)...)
		case err != nil:
			s.proc.log.Error("ALARM: a transaction of an unknown process hangs", append(where, "error", err)...)
		default:
			s.proc.log.Error("ALARM: a transaction hangs whose producer id no longer belongs to a process, or to one that this process may look up: readers of this partition wait until an operator ends it; see StillhereTransactionHangs in the runbook", where...)
			orphans = append(orphans, h)
		}
		hang++
	}
	s.proc.metrics.SetForeignHanging(hang)
	return orphans
}

// republishOrphans publishes again what orphans had committed, so that an operator who aborts them, which
// is all that Kafka's tools can do, takes nothing back.
func (s *session) republishOrphans(ctx context.Context, orphans []kadm.DescribedProducer) error {
	if len(orphans) == 0 {
		return nil
	}
	commit, _, err := s.outcomes(ctx, orphans)
	if err != nil {
		return err
	}
	if err := s.republish(ctx, commit); err != nil {
		return fmt.Errorf("saving what orphaned transactions had committed: %w", err)
	}
	s.proc.log.Warn("the records that the hanging transactions had committed are in the log again: the transactions can be aborted", "partitions", len(orphans))
	return nil
}
