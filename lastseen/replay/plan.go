package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// slack is how far the clock of a detector, which stamps records, may be behind or ahead of
	// the brokers' clocks, by which changes happen.
	slack schemas.Millis = 10 * 60 * 1000
	// margin: where the store can take over, the topic is not read from its first record, which
	// retention may remove at any moment, but from this part of it on.
	margin = 16
	// all is a causing record after all others.
	all = int64(1<<63 - 1)
)

// errEnough ends a reading early.
var errEnough = errors.New("enough")

// plan is what is to be read from where.
type plan struct {
	o       *Options
	log     Log
	archive Archive // may be nil
	filter  Filter

	count  int32 // of the topic's partitions
	topic  schemas.TopicID
	parts  []part
	cut    bool
	begins schemas.Millis
	// forgotten are the tenants whose logs begin after the start of the range.
	forgotten store.Edges
}

// part is what is to be read of one partition.
type part struct {
	id       int32
	from, to int64 // offsets in the topic
	// before is the causing record at the seam: the store gives what was caused before it, or by
	// it. Negative: the store gives nothing.
	before int64
	// until: what the store gives happened before this.
	until schemas.Millis
	// own is what the topic itself has of what was caused by that record.
	own map[rowID]struct{}
}

// rowID identifies a change.
type rowID struct {
	user    schemas.UserID
	version schemas.Version
}

// partitions finds the topic and returns its partitions in which wanted users can be.
func (p *plan) partitions(ctx context.Context) ([]int32, error) {
	var err error
	if p.topic, err = p.log.Topic(ctx); err != nil {
		return nil, err
	}
	if p.count, err = p.log.Partitions(ctx); err != nil {
		return nil, err
	}
	for _, id := range p.filter.Partitions {
		if id < 0 || id >= p.count {
			return nil, fmt.Errorf("partition: %d does not exist, there are 0 to %d", id, p.count-1)
		}
	}
	return p.filter.partitions(p.count), nil
}

func (p *plan) make(ctx context.Context) error {
	p.filter = p.o.Filter
	p.filter.erasures = p.o.Erasures
	ids, err := p.partitions(ctx)
	if err != nil {
		return err
	}
	if err := p.findErased(ctx); err != nil {
		return err
	}
	archived := false
	for _, id := range ids {
		part, err := p.part(ctx, id)
		if err != nil {
			return fmt.Errorf("partition %d: %w", id, err)
		}
		p.parts, archived = append(p.parts, part), archived || part.before >= 0
	}
	if !archived {
		return nil
	}
	if p.begins, err = p.archive.LogBegins(ctx); err != nil || p.filter.From == 0 {
		return err
	}
	edges, err := p.archive.TenantEdges(ctx)
	p.forgotten = edges.Later(p.filter.tenant(), p.filter.From-1)
	return err
}

func (p *plan) part(ctx context.Context, id int32) (part, error) {
	start, end, err := p.log.Bounds(ctx, id)
	part := part{id: id, from: start, to: end, before: -1}
	switch {
	case err != nil:
		return part, err
	case p.o.Offsets != nil:
		return part, part.limit(*p.o.Offsets)
	case p.o.Source == FromArchive:
		part.to, part.before = start, all
		return part, nil
	}
	// A change may be published before what was due earlier, if beats were long on their way: a
	// day at most.
	if since := p.filter.From - slack; since > 0 {
		if part.from, err = p.log.OffsetSince(ctx, id, since); err != nil {
			return part, err
		}
	}
	if to := p.filter.To; to != 0 {
		if part.to, err = p.offsetAfter(ctx, id, to); err != nil {
			return part, err
		}
		part.to = max(part.to, part.from)
	}
	if p.o.Source == FromTopic || p.archive == nil || part.from > start {
		p.cut = p.cut || part.from == start && start > 0
		return part, nil
	}
	return part, p.seam(ctx, &part, start)
}

// offsetAfter is an offset after all changes up to an instant.
func (p *plan) offsetAfter(ctx context.Context, id int32, at schemas.Millis) (int64, error) {
	return p.log.OffsetSince(ctx, id, at+slack+schemas.Millis(p.o.Late.Milliseconds()))
}

// seam places the seam of a partition whose topic may not reach back far enough.
func (p *plan) seam(ctx context.Context, part *part, start int64) error {
	position, err := p.archive.Position(ctx, part.id)
	if err != nil {
		return err
	}
	written := position.Of(p.topic)
	if start > 0 {
		if written == store.Unknown || written < start {
			return fmt.Errorf("there is a gap: the topic begins at offset %d, and the store has been written up to %d only; "+
				"take what there is with the source \"topic\"", start, max(written, 0))
		}
		part.from = max(start, min(written, part.to, start+(part.to-start)/margin))
	}
	part.before = all
	if part.from >= part.to {
		return nil
	}
	return part.meet(ctx, p.log)
}

// meet reads what the first records of the topic were caused by.
func (p *part) meet(ctx context.Context, log Log) error {
	p.own = map[rowID]struct{}{}
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

// limit reduces the part to the offsets that were asked for, which only the topic knows.
func (p *part) limit(to Offsets) error {
	start, end := p.from, p.to
	if to.From >= 0 {
		if to.From < start {
			return fmt.Errorf("the topic begins at offset %d, %d is gone; times reach back into the store", start, to.From)
		}
		p.from = min(to.From, end)
	}
	if to.To >= 0 {
		p.to = max(p.from, min(to.To, end))
	}
	return nil
}
