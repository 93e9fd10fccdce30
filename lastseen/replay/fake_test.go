package replay

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// topic is a topic in memory: its records by partition, offsets with holes.
type topic struct {
	records map[int32][]schemas.Record
	count   int32
	start   map[int32]int64 // what retention has left
	id      schemas.TopicID
}

func (t *topic) Topic(context.Context) (schemas.TopicID, error) { return t.id, nil }

// newTopic publishes the changes in the order in which they are given.
func newTopic(count int32, changes []store.Entry) *topic {
	t := &topic{records: map[int32][]schemas.Record{}, count: count, start: map[int32]int64{}}
	for i := range changes {
		e := &changes[i]
		p := schemas.PartitionOf(e.User, count)
		offset := int64(0)
		if n := len(t.records[p]); n > 0 {
			offset = t.records[p][n-1].Offset + 1 + int64(i%3/2) // now and then a marker
		}
		t.records[p] = append(t.records[p], schemas.Record{Partition: p, Offset: offset, Time: e.At + 5, Key: e.User.Key(), Value: e.Encode()})
	}
	return t
}

func (t *topic) Partitions(context.Context) (int32, error) { return t.count, nil }

func (t *topic) Bounds(_ context.Context, p int32) (start, end int64, err error) {
	if n := len(t.records[p]); n > 0 {
		end = t.records[p][n-1].Offset + 1
	}
	return t.start[p], end, nil
}

func (t *topic) OffsetSince(ctx context.Context, p int32, since schemas.Millis) (int64, error) {
	for _, r := range t.records[p] {
		if r.Time >= since && r.Offset >= t.start[p] {
			return r.Offset, nil
		}
	}
	_, end, err := t.Bounds(ctx, p)
	return end, err
}

func (t *topic) Read(ctx context.Context, p int32, from, to int64, each func(*schemas.Record) error) error {
	for _, r := range t.records[p] {
		if r.Offset < from || r.Offset >= to {
			continue
		}
		if r.Offset < t.start[p] {
			return ErrOvertaken
		}
		if err := each(&r); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// cut takes the first part of each partition away, as retention does.
func (t *topic) cut(part float64) {
	for p, records := range t.records {
		n := int(part * float64(len(records)))
		if n > 0 && n < len(records) {
			t.start[p] = records[n].Offset
		} else if n > 0 {
			t.start[p] = records[n-1].Offset + 1
		}
	}
}

// archive is a durable store in memory.
type archive struct {
	rows []store.Entry
	next map[int32]int64
	// topic is the one of which next are offsets.
	topic  schemas.TopicID
	erased map[schemas.UserID]schemas.Version
	edges  store.Edges
}

// archiveOf is the archive of what a topic had before it was cut, up to a part.
func archiveOf(t *topic, upTo float64) *archive {
	a := &archive{next: map[int32]int64{}}
	for p, records := range t.records {
		n := int(upTo * float64(len(records)))
		for i, r := range records[:n] {
			var e store.Entry
			event, err := e.Scan(r.Value)
			if err != nil {
				panic(err)
			}
			e.SetEvent(event)
			a.rows = append(a.rows, e)
			a.next[p] = r.Offset + 1
			if i+1 < len(records) {
				a.next[p] = records[i+1].Offset // the markers between are done with
			}
		}
	}
	slices.SortFunc(a.rows, func(x, y store.Entry) int { return x.Compare(&y) })
	return a
}

func (a *archive) Position(_ context.Context, p int32) (store.Position, error) {
	if next, ok := a.next[p]; ok {
		return store.Position{Next: next, Topic: a.topic}, nil
	}
	return store.Position{Next: store.Unknown}, nil
}

func (a *archive) Changes(ctx context.Context, of store.Range, each func(*store.Entry) error) error {
	for i := range a.rows {
		e := a.rows[i]
		if e.At < of.From || of.To != 0 && e.At >= of.To || of.User != 0 && e.User != of.User {
			continue
		}
		if err := each(&e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (a *archive) AsOf(_ context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) error {
	newest := map[schemas.UserID]store.Entry{}
	for _, e := range a.rows {
		if e.At <= at && (user == 0 || e.User == user) {
			newest[e.User] = e
		}
	}
	for _, e := range newest {
		if err := each(&e); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) Erased(context.Context) (map[schemas.UserID]schemas.Version, error) {
	return a.erased, nil
}

func (*archive) LogBegins(context.Context) (schemas.Millis, error) { return 0, nil }

func (a *archive) TenantEdges(context.Context) (store.Edges, error) { return a.edges, nil }

// replayed is the file that a replay gives.
func replayed(t *testing.T, format Format, log Log, past Archive, o Options) ([]byte, Summary) {
	t.Helper()
	var out bytes.Buffer
	w := Changes(format, &out)
	sum := must.Get(Run(t.Context(), log, past, &o, w.Write))(t)
	must.Do(t, w.Close())
	return out.Bytes(), sum
}

// written is the file with the changes in the order of a replay.
func written(t *testing.T, format Format, changes []store.Entry) []byte {
	t.Helper()
	ordered := slices.Clone(changes)
	slices.SortFunc(ordered, func(x, y store.Entry) int {
		return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.User, y.User), cmp.Compare(x.Version, y.Version))
	})
	var out bytes.Buffer
	w := Changes(format, &out)
	for i := range ordered {
		must.Do(t, w.Write(&ordered[i]))
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(gotLines), len(wantLines)) {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			t.Fatalf("%s: line %d of %d is\n%s, want (of %d)\n%s", what, i+1, len(gotLines), gotLines[i], len(wantLines), wantLines[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", what, len(gotLines), len(wantLines))
}
