package hanging

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
)

// errEnded ends a session that has ended hanging transactions: the client's epoch of the producer is
// out of date. The next session begins when Kafka has written the markers.
var errEnded = errors.New("ended transactions of this process were still open in Kafka; they are ended now")

// End ends the hanging transactions of the producer. It may be called only when the coordinator has
// just returned the producer's id: none of its transactions is open then, whatever a partition
// answers. If there were any, it returns an error after it has ended them.
func (e *Ender) End(ctx context.Context, producer int64, epoch int16) error {
	own, others, err := e.find(ctx, producer)
	if err != nil {
		return err
	}
	if orphans := e.reportOthers(ctx, others); len(orphans) > 0 {
		if err := e.republish(ctx, orphans); err != nil {
			return fmt.Errorf("saving what orphaned transactions had committed: %w", err)
		}
		e.Log.Warn("the records that the hanging transactions may have committed are in the log again: "+
			"the transactions can be aborted", "partitions", len(orphans))
	}
	if len(own) == 0 {
		return nil
	}
	for _, h := range own {
		e.logOf(h).Error("a transaction of this process hangs: its coordinator has ended it, this partition has not")
	}
	if err := e.republish(ctx, own); err != nil {
		return err
	}
	txn := transaction{e, producer, epoch}
	if err := txn.addPartitions(ctx, own); err != nil {
		return err
	}
	// The offsets also if they do not seem to hang: not every user may ask. Reading again gives the same.
	if err := txn.addOffsets(ctx); err != nil {
		return err
	}
	if err := txn.abort(ctx); err != nil {
		return err
	}
	e.Metrics.HangingEnded(len(own))
	return errEnded
}

// transaction is one by which hanging transactions are ended.
type transaction struct {
	*Ender
	producer int64
	epoch    int16
}

// addPartitions adds the partitions of hanging transactions, without those of the offsets.
func (t *transaction) addPartitions(ctx context.Context, hanging transactions) error {
	topics := kadm.TopicsSet{}
	for _, h := range hanging {
		if h.Topic != consumerOffsets {
			topics.Add(h.Topic, h.Partition)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = t.InstanceID(), t.producer, t.epoch
	for _, sorted := range topics.IntoList() {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = sorted.Topic, sorted.Partitions
		request.Topics = append(request.Topics, topic)
	}
	return retryConcurrent(ctx, "adding partitions to a transaction", func() error {
		response, err := request.RequestWith(ctx, t.Client)
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

// addOffsets adds the group's offsets.
func (t *transaction) addOffsets(ctx context.Context) error {
	request := kmsg.NewPtrAddOffsetsToTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = t.InstanceID(), t.producer, t.epoch
	request.Group = t.Group
	return retryConcurrent(ctx, "adding the offsets of group "+t.Group+" to a transaction", func() error {
		response, err := request.RequestWith(ctx, t.Client)
		if err == nil {
			err = kerr.ErrorForCode(response.ErrorCode)
		}
		return err
	})
}

func (t *transaction) abort(ctx context.Context) error {
	request := kmsg.NewPtrEndTxnRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = t.InstanceID(), t.producer, t.epoch
	return retryConcurrent(ctx, "ending a transaction", func() error {
		response, err := request.RequestWith(ctx, t.Client)
		if err == nil {
			err = kerr.ErrorForCode(response.ErrorCode)
		}
		return err
	})
}

// retryConcurrent retries while the coordinator writes the markers of the last transaction.
func retryConcurrent(ctx context.Context, what string, request func() error) error {
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
