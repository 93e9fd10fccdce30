package processor

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
)

// hangingEnder is a transaction by which hanging ones are ended.
type hangingEnder struct {
	s        *session
	producer int64
	epoch    int16
}

// addPartitions adds to the transaction those that hang, without the offsets.
func (e *hangingEnder) addPartitions(ctx context.Context, hanging []kadm.DescribedProducer) error {
	topics := kadm.TopicsSet{}
	for _, h := range hanging {
		if h.Topic != consumerOffsets {
			topics.Add(h.Topic, h.Partition)
		}
	}
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = e.s.proc.instanceID(), e.producer, e.epoch
	for name, partitions := range topics {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic = name
		for partition := range partitions {
			topic.Partitions = append(topic.Partitions, partition)
		}
		request.Topics = append(request.Topics, topic)
	}
	if len(request.Topics) == 0 {
		return nil
	}
	return e.retryConcurrent(ctx, "adding partitions to a transaction", func() error {
		response, err := request.RequestWith(ctx, e.s.Client)
		if err != nil {
			return err
		}
		for _, topic := range response.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("%s partition %d: %w", topic.Topic, p.Partition, err)
				}
			}
		}
		return nil
	})
}

// addOffsets adds the group's.
func (e *hangingEnder) addOffsets(ctx context.Context) error {
	request := kmsg.NewPtrAddOffsetsToTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Group = e.s.proc.instanceID(), e.producer, e.epoch, e.s.proc.group
	return e.retryConcurrent(ctx, "adding the offsets of group "+e.s.proc.group+" to a transaction", func() error {
		response, err := request.RequestWith(ctx, e.s.Client)
		if err == nil {
			err = kerr.ErrorForCode(response.ErrorCode)
		}
		return err
	})
}

// end ends the transaction. Another may begin then.
func (e *hangingEnder) end(ctx context.Context, commit bool) error {
	request := kmsg.NewPtrEndTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Commit = e.s.proc.instanceID(), e.producer, e.epoch, commit
	return e.retryConcurrent(ctx, "ending a transaction", func() error {
		response, err := request.RequestWith(ctx, e.s.Client)
		if err == nil {
			err = kerr.ErrorForCode(response.ErrorCode)
		}
		if err == nil && response.Version >= 5 {
			e.producer, e.epoch = response.ProducerID, response.ProducerEpoch
		}
		return err
	})
}

// retryConcurrent tries again while the coordinator still writes the markers of the last one.
func (e *hangingEnder) retryConcurrent(ctx context.Context, what string, request func() error) error {
	for tries := 1; ; tries++ {
		err := request()
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) || !kafka.Pause(ctx, kafka.Backoff(tries)) {
			return fmt.Errorf("ending hanging transactions: %s: %w", what, err)
		}
	}
}
