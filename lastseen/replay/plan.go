package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// slack is how far the clock of a detector, which stamps records, may be behind
	// the brokers', which says when things happened; and ahead of it.
	slack schemas.Millis = 10 * 60 * 1000
	// margin: where the store can take over, the topic is not read from its first
	// record, which retention may take any moment, but after this part of it.
	margin = 16
)

// errEnough ends a reading early.
var errEnough = errors.New("enough")

// part is what is to be read of one partition.
type part struct {
	id       int32
	from, to int64 // offsets in the topic
	// before is the causing record at which the topic takes over from the store: the
	// store gives what was caused before, or by it. Negative: the store gives nothing.
	before int64
	// until: what the store gives happened before this.
	until schemas.Millis
	// own is what the topic itself has of what was caused by that record.
	own map[rowID]struct{}
}

// rowID names a change for ever.
type rowID struct {
	user    schemas.UserID
	version schemas.Version
}

// all is a causing record after all others.
const all = int64(1<<63 - 1)

// plan decides what is read from where.
func (o *Options) plan(ctx context.Context, log Log, archive Archive, topic schemas.TopicID) ([]part, int32, error) {
	count, err := log.Partitions(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range o.Filter.Partitions {
		if p < 0 || p >= count {
			return nil, 0, fmt.Errorf("partition: %d does not exist, there are 0 to %d", p, count-1)
		}
	}
	var parts []part
	for _, id := range o.Filter.partitions(count) {
		p, err := o.planPart(ctx, log, archive, topic, id)
		if err != nil {
			return nil, 0, fmt.Errorf("partition %d: %w", id, err)
		}
		parts = append(parts, p)
	}
	return parts, count, nil
}

func (o *Options) planPart(ctx context.Context, log Log, archive Archive, topic schemas.TopicID, id int32) (part, error) {
	p := part{id: id, before: -1}
	start, end, err := log.Bounds(ctx, id)
	if err != nil {
		return p, err
	}
	p.from, p.to = start, end
	if o.Offsets != nil {
		return o.planOffsets(p, start, end)
	}
	if o.Source == FromArchive {
		p.to, p.before, p.until = p.from, all, 0
		return p, nil
	}
	from := o.Filter.From
	if o.Filter.after != nil {
		from = max(from, o.Filter.after.At)
	}
	// A change may be published before what was due earlier, if beats were long on
	// their way: the longest there is is a day.
	if since := from - slack; since > 0 {
		if p.from, err = log.OffsetSince(ctx, id, since); err != nil {
			return p, err
		}
	}
	if to := o.Filter.To; to != 0 {
		if p.to, err = log.OffsetSince(ctx, id, to+slack+schemas.Millis(o.Late.Milliseconds())); err != nil {
			return p, err
		}
		p.to = max(p.to, p.from)
	}
	if o.Source == FromTopic || archive == nil || p.from > start {
		o.Cut = o.Cut || p.from == start && start > 0
		return p, nil
	}
	return o.seam(ctx, log, archive, topic, p, start)
}

// seam places the seam of a partition whose topic may not reach back far enough.
func (o *Options) seam(ctx context.Context, log Log, archive Archive, topic schemas.TopicID, p part, start int64) (part, error) {
	place, err := archive.Position(ctx, p.id)
	if err != nil {
		return p, err
	}
	written := place.Of(topic)
	if start > 0 {
		if written == store.Unknown || written < start {
			return p, fmt.Errorf("there is a gap: the topic begins at offset %d, and the store has been written up to %d only; "+
				"take what there is with the source \"topic\"", start, max(written, 0))
		}
		p.from = max(start, min(written, p.to, start+(p.to-start)/margin))
	}
	if p.from >= p.to {
		p.before = all
		return p, nil
	}
	return p, p.meet(ctx, log)
}

// meet looks what the first records of the topic were caused by.
func (p *part) meet(ctx context.Context, log Log) error {
	p.before, p.own = all, map[rowID]struct{}{}
	var t schemas.Transition
	err := log.Read(ctx, p.id, p.from, p.to, func(r *schemas.Record) error {
		if _, err := t.Scan(r.Value); err != nil {
			return nil // it is counted when it is read again
		}
		switch {
		case p.before == all:
			p.before, p.until = t.Version.Record(), max(r.Time, t.At)+slack
		case p.before != t.Version.Record():
			return errEnough
		}
		p.own[rowID{t.User, t.Version}] = struct{}{}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// planOffsets takes the offsets that were asked for, which only the topic knows.
func (o *Options) planOffsets(p part, start, end int64) (part, error) {
	if o.Offsets.From >= 0 {
		if o.Offsets.From < start {
			return p, fmt.Errorf("the topic begins at offset %d, %d is gone; times reach back into the store", start, o.Offsets.From)
		}
		p.from = min(o.Offsets.From, end)
	}
	if o.Offsets.To >= 0 {
		p.to = max(p.from, min(o.Offsets.To, end))
	}
	return p, nil
}
