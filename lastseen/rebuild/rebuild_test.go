package rebuild_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/rebuild"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

// topic is one partition in memory.
type topic struct{ changes []*schemas.Transition }

func (l topic) Partitions(context.Context) (int32, error)      { return 1, nil }
func (l topic) Topic(context.Context) (schemas.TopicID, error) { return schemas.TopicID{}, nil }
func (l topic) Bounds(context.Context, int32) (start, end int64, err error) {
	return 0, int64(len(l.changes)), nil
}
func (l topic) OffsetSince(context.Context, int32, schemas.Millis) (int64, error) { return 0, nil }
func (l topic) Read(_ context.Context, _ int32, from, to int64, each func(*schemas.Record) error) error {
	for i := from; i < to; i++ {
		if err := each(&schemas.Record{Offset: i, Value: l.changes[i].Encode()}); err != nil {
			return err
		}
	}
	return nil
}

// racing is a store whose sink writes a batch just before some of ours.
type racing struct {
	*sqlitestore.Store
	before func()
}

func (r racing) Append(ctx context.Context, b store.Batch) error {
	if r.before != nil {
		r.before()
	}
	return r.Store.Append(ctx, b)
}

func open(t *testing.T) *sqlitestore.Store {
	t.Helper()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "stillhere.db")
	s := must.Get(sqlitestore.Open(t.Context(), config))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	return s
}

// denied is the list of a user as of a version.
type denied struct {
	list     []schemas.Denial
	audience schemas.Version
}

// content is the log, the users and their lists in a store.
func content(t *testing.T, s *sqlitestore.Store) ([]store.Entry, map[schemas.UserID]schemas.Current, map[schemas.UserID]denied) {
	t.Helper()
	var all []store.Entry
	must.Do(t, s.Changes(t.Context(), store.Range{}, func(e *store.Entry) error { all = append(all, *e); return nil }))
	ids := make([]schemas.UserID, 50)
	for i := range ids {
		ids[i] = schemas.UserID(i + 1)
	}
	lists := map[schemas.UserID]denied{}
	for _, id := range ids {
		list, audience, err := s.DeniedBy(t.Context(), id, 0, schemas.MaxDenied)
		must.Do(t, err)
		lists[id] = denied{list, audience}
	}
	return all, must.Get(s.Users(t.Context(), ids))(t), lists
}

func TestAnEmptiedStoreIsRebuiltWhileTheSinkGoesOnAndNothingIsDoubled(t *testing.T) {
	t.Parallel()
	// With this seed nobody is hidden from before the loss to the end: the times of such a user are not found again.
	log := storetest.RandomLog(23, 50, 12_000)
	whole, emptied := open(t), open(t)
	must.Do(t, whole.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 12_000, Changes: log}))

	// The sink goes on after the loss at offset 11,000, in the middle of the rebuild.
	must.Do(t, emptied.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 11_000, Changes: nil}))
	next := int64(11_000)
	sink := func() {
		if next < 12_000 {
			must.Do(t, emptied.Append(t.Context(), store.Batch{Expected: next, Next: next + 500, Changes: log[next : next+500]}))
			next += 500
		}
	}
	for range 2 { // a second time changes nothing
		done := must.Get(rebuild.Lastseen(t.Context(), topic{log}, racing{emptied, sink}, func(rebuild.Progress) {}))(t)
		if done.Written != 12_000 || done.Read != done.Total {
			t.Errorf("done %+v", done)
		}
	}
	wantLog, wantUsers, wantLists := content(t, whole)
	gotLog, gotUsers, gotLists := content(t, emptied)
	if !reflect.DeepEqual(gotLists, wantLists) {
		t.Errorf("the lists are\n%v, want\n%v", gotLists, wantLists)
	}
	if !slices.Equal(gotLog, wantLog) {
		t.Errorf("%d changes, want %d", len(gotLog), len(wantLog))
	}
	for id, want := range wantUsers {
		got := gotUsers[id]
		got.Since, got.Hidden, want.Since, want.Hidden = 0, 0, 0, 0 // of those whose only change meanwhile told neither
		if got != want {
			t.Errorf("user %d is %+v, want %+v", id, got, want)
		}
	}
	if at, err := emptied.Position(t.Context(), 0); err != nil || at.Next != 12_000 {
		t.Errorf("the sink's place is %d (%v), want 12000", at.Next, err)
	}
}

// projected is a Redis whose projector rebuilds at the third look after a loss.
type projected struct {
	marks   map[int32]redisview.Progress
	looks   int
	nobody  error // if set, returned in place of a rebuild
	rebuilt []int32
	running []redisview.Process
}

func (p *projected) Processes(context.Context) ([]redisview.Process, error) { return p.running, nil }

func (p *projected) Progress(_ context.Context, id int32) (redisview.Progress, error) {
	if mark := p.marks[id]; mark != (redisview.Progress{}) {
		return mark, nil
	}
	if p.nobody != nil {
		return redisview.Progress{}, p.nobody
	}
	if p.looks++; p.looks%3 == 0 {
		p.marks[id] = redisview.Progress{Epoch: int64(100 + p.looks), Next: 7}
		p.rebuilt = append(p.rebuilt, id)
	}
	return redisview.Progress{}, nil
}

func (p *projected) Move(_ context.Context, id int32, from, to redisview.Progress) (redisview.Progress, error) {
	if p.marks[id] != from {
		return p.marks[id], nil
	}
	p.marks[id] = to
	return to, nil
}

func TestEveryPartitionOfRedisIsRebuiltByItsProjector(t *testing.T) {
	t.Parallel()
	p := &projected{marks: map[int32]redisview.Progress{0: {Epoch: 5, Next: 3}, 1: {Epoch: 5, Next: 9}}}
	var told []int32
	must.Do(t, rebuild.Redis(t.Context(), p, 2, func(done, _ int32) { told = append(told, done) }))
	if !slices.Equal(p.rebuilt, []int32{0, 1}) || !slices.Equal(told, []int32{0, 1, 2}) {
		t.Errorf("rebuilt %v, told %v", p.rebuilt, told)
	}
	p = &projected{marks: map[int32]redisview.Progress{}, nobody: errors.New("away")}
	if err := rebuild.Redis(t.Context(), p, 1, func(int32, int32) {}); !errors.Is(err, p.nobody) {
		t.Errorf("error %v", err)
	}
}

// Without its progress the projector would not know that it has to replace what Redis has.
func TestRedisIsNotRebuiltWhileAStoreAwaitsALogEpoch(t *testing.T) {
	t.Parallel()
	now := schemas.MillisOf(time.Now())
	awaits := redisview.Process{Role: "lastseen", Instance: "b", At: now, Totals: map[string]float64{redisview.LogEpochAwaited: 7}}
	mark := redisview.Progress{Epoch: 5, Next: 3}
	p := &projected{marks: map[int32]redisview.Progress{0: mark}, running: []redisview.Process{{Role: "lastseen", Instance: "a", At: now}, awaits}}
	err := rebuild.Redis(t.Context(), p, 1, func(int32, int32) {})
	if err == nil || !strings.Contains(err.Error(), "lastseen b waits for log epoch 7") || p.marks[0] != mark {
		t.Errorf("error %v, progress %+v", err, p.marks[0])
	}
	p.running[1].At -= schemas.Millis(time.Hour / time.Millisecond) // it was killed
	if err := rebuild.Redis(t.Context(), p, 1, func(int32, int32) {}); err != nil || !slices.Equal(p.rebuilt, []int32{0}) {
		t.Errorf("error %v, rebuilt %v", err, p.rebuilt)
	}
}
