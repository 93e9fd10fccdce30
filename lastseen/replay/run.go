package replay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Source says where changes are read from.
type Source string

// The sources.
const (
	FromBoth    Source = "auto"
	FromTopic   Source = "topic"
	FromArchive Source = "store"
)

// Offsets is a range of offsets; -1 leaves an end open. To is not included.
type Offsets struct{ From, To int64 }

// Options say what to replay and how. Start from Defaults.
type Options struct {
	Filter  Filter
	Source  Source
	Offsets *Offsets // in place of times, of one partition
	// Hold is how far all partitions must be ahead of a row before it goes out.
	Hold time.Duration
	// Late is how much later than it happened a change may have been published, for
	// the end of the range to be found in the topic.
	Late time.Duration
	// Progress, if not nil, is told now and then how far it is, from one goroutine.
	Progress func(Progress)
	// Cut is set when the topic does not reach back to the start of the range and
	// there is no archive to ask.
	Cut bool
}

// Defaults replay everything there is.
func Defaults() Options {
	return Options{Source: FromBoth, Hold: 2 * time.Minute, Late: time.Hour}
}

// ResumeAfter leaves out everything up to and including the row.
func (o *Options) ResumeAfter(e store.Entry) { o.Filter.after = &e }

// Progress is how far a replay is.
type Progress struct {
	Rows int64 // that went out
	// Offsets of the topic that were read, of those that are to be read.
	Read, Total int64
	At          schemas.Millis // of the last row
}

// Summary is what a replay has done.
type Summary struct {
	Rows int64
	// Late rows stand behind others that belong after them.
	Late int64
	// Doubles were found in the topic and the store, or twice in the topic, and
	// went out once.
	Doubles int64
	// Unreadable records were left out.
	Unreadable int64
	Last       schemas.Millis // of the last row
	topic      schemas.TopicID
	ends       map[int32]int64
}

// Run hands what is asked for to emit, row by row. The row is valid until emit
// returns; its error ends the replay and is returned unchanged. archive may be
// nil. The summary holds until where it went also beside an error.
func Run(ctx context.Context, log Log, archive Archive, o *Options, emit func(*store.Entry) error) (Summary, error) {
	var sum Summary
	topic, err := log.Topic(ctx)
	if err != nil {
		return sum, fmt.Errorf("planning the replay: %w", err)
	}
	parts, count, err := o.plan(ctx, log, archive, topic)
	if err != nil {
		return sum, fmt.Errorf("planning the replay: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := running{o: o, log: log, archive: archive, parts: parts, count: count}
	sources := r.start(ctx)
	buffer := newReorderBuffer(schemas.Millis(o.Hold.Milliseconds()), func(e *store.Entry) error {
		sum.Rows++
		sum.Last = e.At
		if sum.Rows%4096 == 0 && o.Progress != nil {
			o.Progress(Progress{Rows: sum.Rows, Read: r.read.Load(), Total: r.total, At: e.At})
		}
		return emit(e)
	})
	err = merge(sources, buffer.take)
	if err == nil {
		err = buffer.flush()
	}
	if err == nil {
		err = checkSameTopic(ctx, log, topic)
	}
	cancel()
	_ = drain(sources) // what they say after the end is that it has ended
	sum.Late, sum.Doubles, sum.Unreadable = buffer.late, buffer.doubles+r.doubles.Load(), r.unreadable.Load()
	sum.topic, sum.ends = topic, map[int32]int64{}
	for _, p := range parts {
		sum.ends[p.id] = p.to
	}
	return sum, err
}

// running is a replay under way.
type running struct {
	o       *Options
	log     Log
	archive Archive
	parts   []part
	count   int32
	total   int64

	read, doubles, unreadable atomic.Int64
}

// start starts a source for the archive, if it is needed, and one for every
// partition.
func (r *running) start(ctx context.Context) []*source {
	var sources []*source
	seams := map[int32]part{}
	of := store.Range{From: r.o.Filter.From, To: r.o.Filter.To}
	if after := r.o.Filter.after; after != nil {
		of.From = max(of.From, after.At)
	}
	if len(r.o.Filter.Users) == 1 {
		of.User = r.o.Filter.Users[0]
	}
	var until schemas.Millis
	open := false
	for _, p := range r.parts {
		if p.before < 0 {
			continue
		}
		seams[p.id] = p
		until, open = max(until, p.until), open || p.until == 0
	}
	if !open && until > 0 && (of.To == 0 || until < of.To) {
		of.To = until
	}
	if len(seams) > 0 && (of.To == 0 || of.From < of.To) {
		sources = append(sources, startSource(ctx, func(ctx context.Context, put func(*store.Entry) error) error {
			return r.readArchive(ctx, of, seams, put)
		}))
	}
	for _, p := range r.parts {
		r.total += p.to - p.from
		if p.from >= p.to {
			continue
		}
		sources = append(sources, startSource(ctx, func(ctx context.Context, put func(*store.Entry) error) error {
			return r.readTopic(ctx, p, put)
		}))
	}
	return sources
}

// readArchive puts what lies before the seams.
func (r *running) readArchive(ctx context.Context, of store.Range, seams map[int32]part, put func(*store.Entry) error) error {
	return r.archive.Changes(ctx, of, func(e *store.Entry) error {
		seam, asked := seams[schemas.PartitionOf(e.User, r.count)]
		if !asked || e.Version.Record() > seam.before {
			return nil
		}
		if e.Version.Record() == seam.before {
			if _, double := seam.own[rowID{e.User, e.Version}]; double {
				r.doubles.Add(1)
				return nil
			}
		}
		if !r.o.Filter.wants(e) {
			return nil
		}
		return put(e)
	})
}

// readTopic puts what a partition has, from its seam on.
func (r *running) readTopic(ctx context.Context, p part, put func(*store.Entry) error) error {
	var e store.Entry
	last := p.from
	err := r.log.Read(ctx, p.id, p.from, p.to, func(record *schemas.Record) error {
		if record.Offset-last >= blockRows {
			r.read.Add(record.Offset - last)
			last = record.Offset
		}
		event, err := e.Scan(record.Value)
		if err != nil {
			r.unreadable.Add(1)
			return nil
		}
		if !r.o.Filter.wants(&e) {
			return nil
		}
		e.SetEvent(event)
		return put(&e)
	})
	r.read.Add(p.to - last)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrOvertaken) {
		return fmt.Errorf("partition %d: %w", p.id, err)
	}
	return err
}
