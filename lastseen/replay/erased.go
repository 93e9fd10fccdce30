package replay

import (
	"context"
	"fmt"
	"maps"

	"github.com/stillhere/stillhere/schemas"
)

// findErased finds the erasures that make changes void: those that the archive remembers, and those
// in the topic that it has not. Without an archive the topic is read from the beginning of the range
// to its end once more: an erasure may come after everything else that is read.
func (p *plan) findErased(ctx context.Context) error {
	erased := map[schemas.UserID]schemas.Version{}
	if p.archive != nil {
		known, err := p.archive.Erased(ctx)
		if err != nil {
			return err
		}
		maps.Copy(erased, known)
	}
	for _, id := range p.filter.partitions(p.count) {
		from, end, err := p.log.Bounds(ctx, id)
		if err != nil {
			return err
		}
		if p.archive != nil {
			written, err := p.archive.Position(ctx, id)
			if err != nil {
				return err
			}
			from = max(from, written.Of(p.topic))
		} else if since := p.filter.From - slack; since > 0 {
			if from, err = p.log.OffsetSince(ctx, id, since); err != nil {
				return err
			}
		}
		if from >= end {
			continue
		}
		var t schemas.Transition
		err = p.log.Read(ctx, id, from, end, func(r *schemas.Record) error {
			if _, err := t.Scan(r.Value); err == nil && t.Cause == schemas.Erased {
				erased[t.User] = max(erased[t.User], t.Version)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("partition %d: looking for erased users: %w", id, err)
		}
	}
	p.filter.erased = erased
	return nil
}
