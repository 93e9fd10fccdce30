package hanging

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

type commits = map[int32]kafka.CommittedOffset // by partition of the input

// aborted reports whether the group's offsets show that a transaction was aborted: each names the last transaction
// that was committed with it, and all name an earlier one of the same producer.
func aborted(h kadm.DescribedProducer, committed commits) bool {
	for _, c := range committed {
		last, named := schemas.TransactionOn(c.Metadata)
		if !named || last.Producer != h.ProducerID || last.Epoch >= h.ProducerEpoch {
			return false
		}
	}
	return len(committed) > 0
}

// coming returns a function that reports of the records of a transaction in one partition, in order, whether a restart
// publishes them: the heartbeat that caused them is not committed. A record that does not tell is like the one before.
func (e *Ender) coming(h kadm.DescribedProducer, committed commits) func(*kgo.Record) bool {
	last := false
	beyond := func(partition int32, v schemas.Version) bool {
		c, err := schemas.DecodeCheckpoint(committed[partition].Metadata)
		if err != nil || v.LogEpoch() != c.LogEpoch {
			return err == nil && v.LogEpoch() > c.LogEpoch
		}
		base, known := c.BaseOf(v.LogEpoch())
		offset := base + v.Offset()
		if !v.OfChange() {
			offset++
		}
		return known && offset >= committed[partition].Offset
	}
	return func(r *kgo.Record) bool {
		switch h.Topic {
		case schemas.Transitions.Name(e.Config.Prefix):
			if t, err := schemas.DecodeTransition(r.Value); err == nil {
				last = beyond(h.Partition, t.Version)
			}
		case schemas.Statuses.Name(e.Config.Prefix):
			if s, err := schemas.DecodeStatus(r.Value); err == nil && r.Value != nil && !schemas.IsRulesKey(r.Key) {
				last = beyond(h.Partition, s.Version)
			}
		case schemas.DeadLetter.Name(e.Config.Prefix):
			origin := map[string]int64{}
			for _, header := range r.Headers {
				if n, err := strconv.ParseInt(string(header.Value), 10, 64); err == nil {
					origin[header.Key] = n
				}
			}
			c, known := committed[int32(origin[kafka.HeaderOriginPartition])]
			last = known && origin[kafka.HeaderOriginOffset] >= c.Offset
		}
		return last
	}
}

// republish publishes again, under the same ids, what an abort of these transactions could lose.
func (e *Ender) republish(ctx context.Context, hanging transactions) error {
	// Before their records are read: those of others that were committed are among them then.
	committed, err := e.Reader.Commits(ctx, e.Group, e.Topic, false)
	if err != nil {
		return fmt.Errorf("asking how hanging transactions had ended: %w", err)
	}
	var records []*kgo.Record
	for _, h := range hanging {
		if h.Topic == consumerOffsets || aborted(h, committed) {
			continue
		}
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
		coming := e.coming(h, committed)
		for _, r := range own {
			if coming(r) {
				continue
			}
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
