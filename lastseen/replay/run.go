package replay

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Source is where changes are read from.
type Source string

// The sources.
const (
	FromBoth    Source = "auto"
	FromTopic   Source = "topic"
	FromArchive Source = "store"
)

// Offsets is a range of offsets; -1 leaves an end open. To is not included.
type Offsets struct{ From, To int64 }

// Options are what to replay and how. Start from Defaults.
type Options struct {
	Filter  Filter
	Source  Source
	Offsets *Offsets // in place of times, of one partition
	// Hold is how far all partitions must be ahead of a row before it is emitted.
	Hold time.Duration
	// Late is how much later than it happened a change may have been published, for the end of the
	// range to be found in the topic.
	Late time.Duration
	// Erasures emits the newest erasure of each user, too, as a change with the cause Erased. The topic has them
	// until ErasedUntil, and no archive has. Follow always emits them.
	Erasures bool
	// Names, if not nil, is what users are called, in text mode: rows then have names, and are ordered by
	// instant, version and event id, which they have whether or not their names are known.
	Names Names
	// Look, if not nil, is called at each look for new changes of Follow, never while it calls emit or idle. Its error
	// ends Follow.
	Look func() error
	// Progress, if not nil, is called now and then, from one goroutine.
	Progress func(Progress)
}

// Defaults replay everything there is.
func Defaults() Options {
	return Options{Source: FromBoth, Hold: 2 * time.Minute, Late: time.Hour}
}

// order is the order of the rows.
func (o *Options) order() func(a, b *store.Entry) int {
	if o.Names == nil {
		return (*store.Entry).Compare
	}
	return compareNamed
}

// compareNamed orders rows that have no user id.
func compareNamed(a, b *store.Entry) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Version, b.Version), bytes.Compare(a.Event[:], b.Event[:]))
}

// Progress is how far a replay is.
type Progress struct {
	Rows int64 // that were emitted
	// Read is how many offsets of the topic were read, Total how many are to be read.
	Read, Total int64
	At          schemas.Millis // of the last row
}

// Summary is what a replay has done.
type Summary struct {
	Rows int64
	// Late rows come after others that belong behind them.
	Late int64
	// Doubles were found in the topic and the store, or twice in the topic, and emitted once.
	Doubles int64
	// Unreadable records were left out.
	Unreadable int64
	Last       schemas.Millis // of the last row
	// Unnamed rows are of users whose name is not known, or whose id has two, in text mode. With a tenant
	// they were left out.
	Unnamed int64
	// Cut: the topic does not reach back to the start of the range, and there is no archive.
	Cut bool
	// Begins is the instant from which on the archive keeps changes, if it was read; 0 if none was
	// ever dropped.
	Begins schemas.Millis
	// Forgotten are the tenants of whose users changes are missing, because they keep fewer days, and the instants
	// from which on the archive keeps theirs.
	Forgotten store.Edges
	topic     schemas.TopicID
	ends      map[int32]int64
}

// Run calls emit for each row that is asked for. The row is valid until emit returns, whose error
// ends the replay and is returned unchanged. archive may be nil. The summary is valid beside an
// error too.
func Run(ctx context.Context, log Log, archive Archive, o *Options, emit func(*store.Entry) error) (sum Summary, err error) {
	p := plan{o: o, log: log, archive: archive}
	if err := p.make(ctx); err != nil {
		return sum, fmt.Errorf("planning the replay: %w", err)
	}
	sum.Cut, sum.Begins, sum.Forgotten, sum.topic, sum.ends = p.cut, p.begins, p.forgotten, p.topic, map[int32]int64{}
	for _, part := range p.parts {
		sum.ends[part.id] = part.to
	}
	r := reading{plan: p}
	buffer := reorderBuffer{hold: schemas.Millis(o.Hold.Milliseconds()), order: o.order(), emit: func(e *store.Entry) error {
		if err := ctx.Err(); err != nil {
			return err // many rows may wait behind everything that was read
		}
		sum.Rows++
		if sum.Last = e.At; sum.Rows%4096 == 0 {
			r.report(sum.Rows, e.At)
		}
		return emit(e)
	}}
	named := o.newNamer(buffer.emit)
	if named != nil {
		buffer.emit = func(e *store.Entry) error { return named.take(ctx, e) }
	}
	if err = r.merge(ctx, buffer.take); err == nil {
		err = buffer.flush()
	}
	if err == nil && named != nil {
		err = named.flush(ctx)
		sum.Unnamed = named.unnamed
	}
	if err == nil {
		err = checkSameTopic(ctx, log, p.topic)
	}
	sum.Late, sum.Doubles, sum.Unreadable = buffer.late, buffer.doubles+r.doubles.Load(), r.unreadable.Load()
	return sum, err
}
