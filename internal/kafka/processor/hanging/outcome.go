package hanging

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka/processor/owners"
	"github.com/stillhere/stillhere/schemas"
)

// outcomes returns which transactions to commit and which to abort: how they had ended, by what the
// group's offsets name of their producer (see package owners). Where the offsets do not name it, as
// after an operator has set them, records are committed: aborted ones come again with the same ids anyway,
// while committed ones would be lost. Offsets are always aborted: reading again gives the same.
func (e *Ender) outcomes(ctx context.Context, hanging transactions) (commit, abort transactions, err error) {
	commits, err := e.Reader.Commits(ctx, e.Group, e.Topic, false)
	if err != nil {
		return nil, nil, fmt.Errorf("asking how hanging transactions had ended: %w", err)
	}
	complete := len(commits) > 0
	var all []owners.Owner
	for _, c := range commits {
		named, allNamed := owners.Decode(c.Metadata)
		all, complete = append(all, named...), complete && allNamed
	}
	last := owners.Latest(all)
	unique := e.epochPerTransaction(ctx)
	for _, h := range hanging {
		how, to := "aborted", &abort
		switch of, found := last[h.ProducerID]; {
		case h.Topic == consumerOffsets:
		case found && of.Committed(h, unique):
			how, to = "committed", &commit
		case !complete:
			how, to = "not known; its records are committed", &commit
		}
		*to = append(*to, h)
		e.logOf(h).Error("a transaction of this process hangs: its coordinator has ended it, this partition has not",
			"outcome", how)
	}
	return commit, abort, nil
}

// epochPerTransaction reports whether the cluster gives every transaction an epoch of its own
// (KIP-890, second part).
func (e *Ender) epochPerTransaction(ctx context.Context) bool {
	unique := func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == "transaction.version" && f.MaxVersionLevel >= 2
	}
	versions := e.apiVersions(ctx)
	return versions != nil && slices.ContainsFunc(versions.FinalizedFeatures, unique)
}

// republish publishes what these transactions had committed, under the same ids.
func (e *Ender) republish(ctx context.Context, hanging transactions) error {
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
