package replay

import (
	"cmp"
	"context"
	"slices"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// AsOf calls emit, ordered by user, with what was in force at the instant of every user whom the
// options' filter wants; its States are those at the instant. archive may be nil; then only users
// who changed within the topic's retention are known, and the summary's Cut reports whether that
// left something out. For an instant before the archive's log begins, the error is a
// *store.ForgottenError, whatever the topic has. The options' From, To, Causes and Offsets are
// ignored.
func AsOf(ctx context.Context, log Log, archive Archive, at schemas.Millis, o *Options, emit func(*store.Entry) error) (sum Summary, err error) {
	p := plan{o: o, log: log, archive: archive, filter: Filter{Users: o.Filter.Users, Partitions: o.Filter.Partitions, To: at + 1}}
	if archive != nil {
		if sum.Forgotten, err = o.Filter.checkKnown(ctx, archive, at); err != nil { // before everything is read in vain
			return sum, err
		}
	}
	ids, err := p.partitions(ctx)
	if err != nil {
		return sum, err
	}
	for _, id := range ids {
		part := part{id: id, before: -1}
		if part.from, _, err = log.Bounds(ctx, id); err != nil {
			return sum, err
		}
		if archive == nil {
			sum.Cut = sum.Cut || part.from > 0
		} else {
			// The position is read before the store, so that no change lies between.
			written, err := archive.Position(ctx, id)
			if err != nil {
				return sum, err
			}
			part.from = max(part.from, written.Of(p.topic))
		}
		if part.to, err = p.offsetAfter(ctx, id, at); err != nil {
			return sum, err
		}
		part.to = max(part.from, part.to)
		p.parts = append(p.parts, part)
	}
	if err := p.findErased(ctx); err != nil {
		return sum, err
	}
	r := reading{plan: p}
	inForce, err := r.newest(ctx, at)
	if err != nil {
		return sum, err
	}
	counted := func(e *store.Entry) error {
		if err := ctx.Err(); err != nil {
			return err // everything was read, but is not all printed
		}
		sum.Rows++
		return emit(e)
	}
	named := o.newNamer(counted)
	for i := range inForce {
		e := &inForce[i]
		if len(o.Filter.States) > 0 && !slices.Contains(o.Filter.States, e.To) {
			continue
		}
		take := counted
		if named != nil {
			take = func(e *store.Entry) error { return named.take(ctx, e) }
		}
		if err := take(e); err != nil {
			return sum, err
		}
	}
	if named != nil {
		err = named.flush(ctx)
		sum.Unnamed = named.unnamed
	}
	return sum, err
}

// newest is the newest change of each user, ordered by user.
func (r *reading) newest(ctx context.Context, at schemas.Millis) ([]store.Entry, error) {
	var found []store.Entry
	index := map[schemas.UserID]int32{} // of the users in the topic; the archive gives each user once
	read := int64(0)
	err := r.merge(ctx, func(e *store.Entry, _ schemas.Millis) error {
		if read++; read%(4*blockRows) == 0 {
			r.report(int64(len(found)), e.At)
		}
		i, known := index[e.User]
		switch {
		case !known:
			index[e.User] = int32(len(found))
			found = append(found, *e)
		case e.Compare(&found[i]) > 0:
			found[i] = *e
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.archive != nil {
		var user schemas.UserID
		if len(r.filter.Users) == 1 {
			user = r.filter.Users[0]
		}
		wanted := r.filter.partitions(r.count)
		err = r.archive.AsOf(ctx, at, user, func(e *store.Entry) error {
			i, known := index[e.User]
			switch {
			case !slices.Contains(wanted, schemas.PartitionOf(e.User, r.count)) || !r.filter.wants(e):
			case !known:
				found = append(found, *e)
			case e.Compare(&found[i]) > 0:
				found[i] = *e
			}
			return nil
		})
	}
	slices.SortFunc(found, func(a, b store.Entry) int { return cmp.Compare(a.User, b.User) })
	return found, err
}

// checkKnown checks whether the archive knows what was in force at an instant. Of everybody, forgotten are the
// tenants of whom it does not.
func (f *Filter) checkKnown(ctx context.Context, archive Archive, at schemas.Millis) (forgotten store.Edges, err error) {
	begins, err := archive.LogBegins(ctx)
	if err == nil {
		err = store.CheckKnown(at, begins)
	}
	if err != nil {
		return nil, err
	}
	edges, err := archive.TenantEdges(ctx)
	if err != nil {
		return nil, err
	}
	forgotten = edges.Later(f.tenant(), at)
	if tenant := f.tenant(); tenant != nil && len(forgotten) > 0 {
		return nil, &store.ForgottenError{Asked: at, Begins: forgotten[*tenant], Tenant: tenant}
	}
	return forgotten, nil
}
