package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

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
var errHanging = errors.New("transactions of ours that were over had been left open by Kafka; they are ended")

// endHanging ends the hanging transactions of the producer. It may be called only
// when the coordinator has just given out the producer's id: none of its
// transactions is open then, whatever a partition says. It returns errHanging if
// there were any: the client's idea of the producer's epoch is out of date then.
//
// They are ended by a new transaction that the partitions are added to: its markers
// end the old one as well. That takes no right that the writer does not have.
func (s *session) endHanging(ctx context.Context, producer int64, epoch int16) error {
	hanging, err := s.hanging(ctx, producer)
	if err != nil || len(hanging) == 0 {
		return err
	}
	hanging, commit := s.sameEnd(ctx, hanging)
	for _, h := range hanging {
		s.t.log.Error("a transaction of ours hangs: Kafka holds it for over, but not in this partition; ending it there",
			"topic", h.Topic, "partition", h.Partition, "offset", h.CurrentTxnStartOffset, "producer", producer, "epoch", h.ProducerEpoch, "committed", commit)
	}
	if err := s.join(ctx, producer, epoch, hanging); err != nil {
		return fmt.Errorf("ending hanging transactions: %w", err)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = s.t.instance(), producer, epoch, commit
	response, err := end.RequestWith(ctx, s.Client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("ending hanging transactions: %w", err)
	}
	s.t.metrics.ended(len(hanging))
	return errHanging
}

// hanging are the open transactions of the producer. An error is that we may not ask;
// about the offsets not everybody may, and brokers before 2.8 do not know the
// question: what is not told is left out.
func (s *session) hanging(ctx context.Context, producer int64) (open []kadm.DescribedProducer, err error) {
	names := []string{consumerOffsets}
	for _, topic := range s.t.outputs {
		names = append(names, topic.Name(s.t.cfg.Prefix))
	}
	admin := kadm.NewClient(s.Client)
	for _, name := range names {
		// One by one: the answer about a topic that is refused hides the others.
		described, fault := admin.DescribeProducers(ctx, kadm.TopicsSet{name: nil})
		if refused := (*kadm.AuthError)(nil); errors.As(fault, &refused) && name != consumerOffsets {
			return nil, fmt.Errorf("looking for hanging transactions: %w", needs(refused.Err, "Read", OfTopic, name))
		} else if fault != nil {
			s.t.log.Debug("not looked at for hanging transactions", "topic", name, "error", fault)
		}
		described.EachProducer(func(active kadm.DescribedProducer) {
			if active.ProducerID == producer && active.CurrentTxnStartOffset >= 0 {
				open = append(open, active)
			}
		})
	}
	return open, nil
}

// hangingAge is how long a transaction may seem open before it is looked at as one
// that hangs, and how often that is looked for. Far beyond the transaction timeout.
const hangingAge = time.Minute

// leftHanging is in how many partitions a transaction of this session hangs. A new
// session ends them.
func (s *session) leftHanging() (n int) {
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
	defer cancel()
	producer, _, err := s.ProducerID(ctx)
	if err != nil {
		return 0 // the loop meets that as well
	}
	open, _ := s.hanging(ctx, producer) // the session has asked before, with the same rights
	for _, h := range open {
		if time.Since(time.UnixMilli(h.LastTimestamp)) > hangingAge {
			n++
		}
	}
	return n
}

// sameEnd picks those that had been committed, if there are any, else those that had
// been aborted: one transaction ends all that joined it in the same way, and the next
// session finds the others.
//
// What is committed names its transaction in the metadata of its offsets, and a
// session begins no other transaction after one that was not committed. When the
// offsets hang as well this cannot be told, and aborting is right: what was read is
// read again and gives the same. Nor can it be told where transactions share an epoch,
// as before 4.0: what hangs there was overtaken by an abort.
func (s *session) sameEnd(ctx context.Context, hanging []kadm.DescribedProducer) (same []kadm.DescribedProducer, commit bool) {
	if !s.epochPerTransaction(ctx) {
		return hanging, false
	}
	offsets, err := kadm.NewClient(s.Client).FetchOffsetsForTopics(ctx, s.t.group, s.name)
	if err != nil {
		s.t.log.Warn("cannot tell how hanging transactions had ended; aborting them", "error", err)
		return hanging, false
	}
	last := int16(-1)
	offsets.Each(func(o kadm.OffsetResponse) {
		if t, ok := schemas.TransactionOn(o.Metadata); ok && t.Producer == hanging[0].ProducerID {
			last = max(last, t.Epoch)
		}
	})
	for _, h := range hanging {
		if h.ProducerEpoch <= last {
			same = append(same, h)
		}
	}
	if len(same) > 0 {
		return same, true
	}
	return hanging, false
}

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

// join adds the partitions, and the group's offsets, to a new transaction.
func (s *session) join(ctx context.Context, producer int64, epoch int16, hanging []kadm.DescribedProducer) error {
	topics := kadm.TopicsSet{}
	for _, h := range hanging {
		if h.Topic != consumerOffsets {
			topics.Add(h.Topic, h.Partition)
		}
	}
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = s.t.instance(), producer, epoch
	for name, partitions := range topics {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic = name
		for partition := range partitions {
			topic.Partitions = append(topic.Partitions, partition)
		}
		request.Topics = append(request.Topics, topic)
	}
	if len(request.Topics) > 0 {
		response, err := request.RequestWith(ctx, s.Client)
		if err != nil {
			return err
		}
		for _, topic := range response.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("adding %s partition %d to a transaction: %w", topic.Topic, p.Partition, err)
				}
			}
		}
	}
	// Also when they do not seem to hang: not everybody may ask.
	offsets := kmsg.NewPtrAddOffsetsToTxnRequest()
	offsets.TransactionalID, offsets.ProducerID, offsets.ProducerEpoch, offsets.Group = s.t.instance(), producer, epoch, s.t.group
	response, err := offsets.RequestWith(ctx, s.Client)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("adding the offsets of group %s to a transaction: %w", s.t.group, err)
	}
	return nil
}
