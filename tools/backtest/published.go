package backtest

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// AsPublished is the name of the outcome that the log of changes has.
const AsPublished = "as published"

// Publisher is a Source that also knows what was published for its heartbeats.
type Publisher interface {
	// Published calls each for the changes published since an instant, or somewhat earlier, those of a partition in
	// order, with the offset of the heartbeats that caused them. The record has when it was published, and is valid
	// until each returns.
	Published(ctx context.Context, since schemas.Millis, each func(cause int64, r *schemas.Record, t *schemas.Transition) error) error
}

// Published reads the topic of the changes. It leaves out changes of epochs of the log that no checkpoint knows any more.
func (l *Live) Published(ctx context.Context, since schemas.Millis,
	each func(cause int64, r *schemas.Record, t *schemas.Transition) error,
) error {
	var change schemas.Transition
	for p := range l.count {
		from, err := l.Reader.OffsetSince(ctx, schemas.Transitions, p, since)
		if err != nil {
			return err
		}
		err = l.Reader.Read(ctx, schemas.Transitions, p, from, -1, true, func(r *schemas.Record) error {
			if change.Decode(r.Value) != nil {
				return nil
			}
			base, known := int64(0), true
			if c := l.checkpoints[p]; c != nil {
				base, known = c.BaseOf(change.Version.LogEpoch())
			}
			if !known {
				return nil
			}
			return each(base+change.Version.Offset(), r, &change)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// offsets are the heartbeats of a partition that count: from is the first after the warm-up, -1 for none.
type offsets struct{ from, to int64 }

// counted notes which heartbeats count: those from an instant on, after the warm-up.
type counted struct {
	since, warmUp schemas.Millis
	begun         []schemas.Millis
	of            []offsets
}

func newCounted(partitions int32, since, warmUp schemas.Millis) *counted {
	c := &counted{since: since, warmUp: warmUp, begun: make([]schemas.Millis, partitions), of: make([]offsets, partitions)}
	for i := range c.of {
		c.of[i].from = -1
	}
	return c
}

// take reports whether a heartbeat counts.
func (c *counted) take(r *schemas.Record) bool {
	if c.begun[r.Partition] == 0 {
		c.begun[r.Partition] = r.Time
	}
	of := &c.of[r.Partition]
	if of.from < 0 && r.Time >= max(c.since, c.begun[r.Partition]+c.warmUp) {
		of.from = r.Offset
	}
	of.to = r.Offset
	return of.from >= 0
}

// has reports whether the heartbeats that count have caused the change.
func (c *counted) has(cause int64, t *schemas.Transition) bool {
	of := c.of[schemas.PartitionOf(t.User, int32(len(c.of)))]
	return of.from >= 0 && cause >= of.from && cause <= of.to
}

// published is the outcome that the log of changes has of the heartbeats that count. Its changes are noticed when they
// are in the log. like is a trial of the same heartbeats.
func published(ctx context.Context, from Publisher, r *Report, within *counted, like *trial) (Outcome, error) {
	t := &trial{
		tenant: like.tenant, people: like.people, flap: like.flap, left: map[schemas.UserID]schemas.Millis{}, load: map[int64]int32{},
		first: like.first, last: like.last, o: Outcome{Policy: AsPublished, Causes: map[string]int64{}},
	}
	err := from.Published(ctx, r.From, func(cause int64, record *schemas.Record, c *schemas.Transition) error {
		// Offsets of a topic that was recreated begin again.
		if within.has(cause, c) && c.At <= r.To && t.counts(c.User) {
			t.o.PolicyID = c.Policy
			t.count(c, record.Time, min(max(int64(record.Time)/1000, t.first), t.last))
		}
		return nil
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("reading what was published: %w", err)
	}
	return t.outcome(), nil
}
