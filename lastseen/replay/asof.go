package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Past is a durable store that can tell what was in force at an instant.
type Past interface {
	// AsOf calls each, once, for every user of whom a change is known that happened
	// at or before at, with what was in force then: state (To), since when (At), times,
	// devices, visibility and version. Version 0 stands for a user who was here and whose
	// last change until then was dropped: since when and with what devices is not known,
	// At is the instant asked for. Who was offline may be left out where that change was
	// dropped. Users come in any order; user 0 stands for all. The entry is valid until
	// each returns. Of an instant before the log begins the error is a
	// *store.ForgottenError, and each is not called.
	AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error
	// LogBegins is the instant from which on changes are kept; 0 when none was ever
	// dropped. It only moves on.
	LogBegins(ctx context.Context) (schemas.Millis, error)
}

// AsOf hands to emit what was in force at the instant of every user whom the
// options' filter wants, ordered by user; States are those at the instant. archive
// may be nil; then only users who changed within the topic's retention are known,
// and the options' Cut says whether that is so. Of an instant before the archive's log
// begins the error is a *store.ForgottenError, whatever the topic has. The options' From,
// To, Causes and Offsets are ignored.
func AsOf(ctx context.Context, log Log, archive PastArchive, at schemas.Millis, o *Options, emit func(*store.Entry) error) (int64, error) {
	filter := o.Filter
	filter.From, filter.To, filter.after = 0, 0, nil
	states := filter.States
	filter.States, filter.Causes = nil, nil
	if archive != nil {
		if err := known(ctx, archive, at); err != nil { // before all is read in vain
			return 0, err
		}
	}
	count, err := log.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	topic, err := log.Topic(ctx)
	if err != nil {
		return 0, err
	}
	wanted := filter.partitions(count)
	from := make(map[int32]int64, len(wanted))
	for _, p := range wanted {
		start, _, err := log.Bounds(ctx, p)
		if err != nil {
			return 0, err
		}
		from[p] = start
		if archive == nil {
			o.Cut = o.Cut || start > 0
			continue
		}
		// Before the store is read, so that nothing lies between.
		written, err := archive.Position(ctx, p)
		if err != nil {
			return 0, err
		}
		from[p] = max(start, written.Of(topic))
	}
	inForce, err := readInForce(ctx, log, wanted, from, at, &filter, o)
	if err != nil {
		return 0, err
	}
	if archive != nil {
		var user schemas.UserID
		if len(filter.Users) == 1 {
			user = filter.Users[0]
		}
		err := archive.AsOf(ctx, at, user, func(e *store.Entry) error {
			if part := inForce[schemas.PartitionOf(e.User, count)]; part != nil && filter.wants(e) {
				part.meet(e)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return emitInForce(inForce, states, emit)
}

// known tells whether the archive knows what was in force at an instant.
func known(ctx context.Context, archive Past, at schemas.Millis) error {
	begins, err := archive.LogBegins(ctx)
	if err != nil {
		return err
	}
	return store.CheckKnown(at, begins)
}

// readAtOnce is how many partitions are read at the same time.
const readAtOnce = 4

// readInForce reads what the topic has of all partitions; each has users of its own.
func readInForce(ctx context.Context, log Log, wanted []int32, from map[int32]int64, at schemas.Millis, filter *Filter, o *Options) (map[int32]*partitionState, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all, faults := make(map[int32]*partitionState, len(wanted)), make([]error, len(wanted))
	progress := tally{report: o.Progress}
	turns := make(chan struct{}, readAtOnce)
	var readers sync.WaitGroup
	for i, p := range wanted {
		part := &partitionState{rows: map[schemas.UserID]int32{}}
		all[p] = part
		turns <- struct{}{}
		readers.Go(func() {
			defer func() { <-turns }()
			if faults[i] = part.read(ctx, log, p, from[p], at, filter, o, &progress); faults[i] != nil {
				cancel()
			}
		})
	}
	readers.Wait()
	// What the others say after the first is that they were told to end.
	for _, fault := range faults {
		if fault != nil && !errors.Is(fault, context.Canceled) {
			return nil, fault
		}
	}
	return all, errors.Join(faults...)
}

// tally adds up how far several readers are.
type tally struct {
	mu     sync.Mutex // protects what follows
	sum    Progress
	report func(Progress)
}

func (t *tally) add(users, read, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Rows, t.sum.Read, t.sum.Total = t.sum.Rows+users, t.sum.Read+read, t.sum.Total+total
	if t.report != nil {
		t.report(t.sum)
	}
}

// partitionState is what is in force of every user of a partition, as far as it is known.
type partitionState struct {
	rows map[schemas.UserID]int32 // of those of whom the topic tells
	all  []store.Entry
}

// meet takes what the archive has of a user of whom it tells once.
func (s *partitionState) meet(e *store.Entry) {
	if i, known := s.rows[e.User]; !known {
		s.all = append(s.all, *e)
	} else if e.Compare(&s.all[i]) > 0 {
		s.all[i] = *e
	}
}

func (s *partitionState) see(e *store.Entry) {
	i, known := s.rows[e.User]
	switch {
	case !known:
		s.rows[e.User] = int32(len(s.all))
		s.all = append(s.all, *e)
	case e.Compare(&s.all[i]) > 0:
		s.all[i] = *e
	}
}

// read looks at what the topic has from an offset on, up to what was published
// long enough after the instant.
func (s *partitionState) read(ctx context.Context, log Log, p int32, from int64, at schemas.Millis, filter *Filter, o *Options, progress *tally) error {
	to, err := log.OffsetSince(ctx, p, at+slack+schemas.Millis(o.Late.Milliseconds()))
	if err != nil || from >= to {
		return err
	}
	var e store.Entry
	progress.add(0, 0, to-from)
	users, place := 0, from
	err = log.Read(ctx, p, from, to, func(r *schemas.Record) error {
		if r.Offset-place >= 4*blockRows {
			progress.add(int64(len(s.all)-users), r.Offset-place, 0)
			users, place = len(s.all), r.Offset
		}
		event, err := e.Scan(r.Value)
		if err != nil || e.At > at || !filter.wants(&e) {
			return nil
		}
		e.SetEvent(event)
		s.see(&e)
		return nil
	})
	if err != nil && !errors.Is(err, ErrOvertaken) {
		return fmt.Errorf("partition %d: %w", p, err)
	}
	return err
}

// emitInForce hands out what there is of all partitions, ordered by user.
func emitInForce(parts map[int32]*partitionState, states []schemas.State, emit func(*store.Entry) error) (int64, error) {
	type key struct {
		user      schemas.UserID
		part, row int32
	}
	var order []key
	for id, part := range parts {
		order = slices.Grow(order, len(part.all))
		for i := range part.all {
			order = append(order, key{part.all[i].User, id, int32(i)})
		}
	}
	slices.SortFunc(order, func(a, b key) int { return cmp.Compare(a.user, b.user) })
	n := int64(0)
	for _, k := range order {
		e := &parts[k.part].all[k.row]
		if len(states) > 0 && !slices.Contains(states, e.To) {
			continue
		}
		if err := emit(e); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
