package hanging

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// lost returns the transactions whose records an abort could lose: all but those of which the group's offsets show
// that they were aborted. The offset of a partition names the last transaction that was committed for it. If an earlier
// one of the producer is named, this one never was, and its records come again with the same ids. If another producer's
// is named, others have gone on; what they published is not published again.
func (e *Ender) lost(ctx context.Context, hanging transactions) (lost transactions, err error) {
	commits, err := e.Reader.Commits(ctx, e.Group, e.Topic, false)
	if err != nil {
		return nil, fmt.Errorf("asking how hanging transactions had ended: %w", err)
	}
	for _, h := range hanging {
		earlier := func(c kafka.CommittedOffset) bool {
			last, named := schemas.TransactionOn(c.Metadata)
			return named && last.Producer == h.ProducerID && last.Epoch < int16(h.ProducerEpoch)
		}
		aborted := len(commits) > 0
		if e.likeInput(h.Topic) {
			aborted = earlier(commits[h.Partition])
		} else {
			for _, c := range commits {
				aborted = aborted && earlier(c)
			}
		}
		if h.Topic != consumerOffsets && !aborted {
			lost = append(lost, h)
		}
	}
	return lost, nil
}

// likeInput reports whether the output for a partition of the input goes to the same partition of that topic.
func (e *Ender) likeInput(name string) bool {
	return e.Topic == schemas.Heartbeats && slices.ContainsFunc(append(schemas.Topics(), schemas.TextTopics()...),
		func(t schemas.TopicSpec) bool { return t.ByUser && t.Topic.Name(e.Config.Prefix) == name })
}

// republish publishes again, under the same ids, what an abort of these transactions could lose.
func (e *Ender) republish(ctx context.Context, hanging transactions) error {
	hanging, err := e.lost(ctx, hanging)
	if err != nil {
		return err
	}
	var records []*kgo.Record
	for _, h := range hanging {
		var own []*kgo.Record
		later := map[string]int64{}    // by key, offsets of others' records
		published := map[string]bool{} // by identity, others' records
		identity := func(r *kgo.Record) string { return fmt.Sprintf("%d %s%s", len(r.Key), r.Key, r.Value) }
		err := e.Reader.ReadRaw(ctx, h.Topic, h.Partition, h.CurrentTxnStartOffset, func(r *kgo.Record) {
			if r.ProducerID != h.ProducerID {
				later[string(r.Key)] = r.Offset
				published[identity(r)] = true
			} else {
				own = append(own, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
					Key: slices.Clone(r.Key), Value: slices.Clone(r.Value), Headers: r.Headers, Timestamp: r.Timestamp})
			}
		})
		if err != nil {
			return fmt.Errorf("before ending hanging transactions: %w", err)
		}
		statuses := h.Topic == schemas.Statuses.Name(e.Config.Prefix)
		for _, r := range own {
			// A status is not published behind a later one of the same user.
			superseded := statuses && later[string(r.Key)] > r.Offset
			if !published[identity(r)] && !superseded {
				records = append(records, r)
			}
		}
	}
	if len(records) == 0 {
		return nil
	}
	return e.Producer.Republish(ctx, records)
}
