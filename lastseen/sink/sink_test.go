package sink_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(tb testing.TB) *sqlitestore.Store {
	tb.Helper()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(tb.TempDir(), "stillhere.db")
	s := must.Get(sqlitestore.Open(context.Background(), config))(tb)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func newSink(to store.Writer) *sink.Sink {
	config := lastseen.Defaults()
	config.SinkRows = 4
	return sink.New(to, config, lastseen.NewMetrics(prometheus.NewRegistry()))
}

// logged gives the changes offsets with holes, as transaction markers leave.
func logged(log []*schemas.Transition) []stream.Logged[*schemas.Transition] {
	items := make([]stream.Logged[*schemas.Transition], len(log))
	for i, change := range log {
		items[i] = stream.Logged[*schemas.Transition]{Offset: int64(2*i + 1), Time: change.At, Message: change}
	}
	return items
}

// batch is the items of partition 0 from one offset to another.
func batch(items []stream.Logged[*schemas.Transition], from, to int64) stream.Batch[stream.Logged[*schemas.Transition]] {
	b := stream.Batch[stream.Logged[*schemas.Transition]]{Next: to}
	for _, item := range items {
		if item.Offset >= from && item.Offset < to {
			b.Items = append(b.Items, item)
		}
	}
	return b
}

func wantStore(t rapid.TB, s *sqlitestore.Store, partition int32, next int64, log []*schemas.Transition) {
	t.Helper()
	if got, err := s.Position(context.Background(), partition); err != nil || got.Next != next {
		t.Fatalf("next offset %d (%v), want %d", got.Next, err, next)
	}
	want := map[schemas.UserID]schemas.Current{}
	var ids []schemas.UserID
	for _, change := range log {
		if want[change.User].Version == 0 {
			ids = append(ids, change.User)
		}
		want[change.User] = store.After(want[change.User], change)
	}
	got, err := s.Users(context.Background(), ids)
	if err != nil {
		t.Fatalf("reading users: %v", err)
	}
	for _, id := range ids {
		if got[id] != want[id] {
			t.Fatalf("user %d is %+v, want %+v", id, got[id], want[id])
		}
	}
}

func TestABatchLargerThanATransactionIsWrittenInSeveral(t *testing.T) {
	t.Parallel()
	to := openStore(t)
	log := storetest.RandomLog(1, 5, 11)
	s := newSink(to)
	next, err := s.Start(t.Context(), stream.Assignment{})
	if err != nil || next.Next != store.Unknown {
		t.Fatalf("start at %d (%v), want %d", next.Next, err, store.Unknown)
	}
	must.Do(t, s.Apply(t.Context(), batch(logged(log), 0, 30)))
	wantStore(t, to, 0, 30, log)
	if next, err := newSink(to).Start(t.Context(), stream.Assignment{}); err != nil || next.Next != 30 {
		t.Fatalf("another sink starts at %d (%v), want 30", next.Next, err)
	}
}

// flaky fails now and then, before or after the real store has written.
type flaky struct {
	store.Writer
	fail func() (before, after bool)
}

var errAway = errors.New("the store is away")

func (f flaky) Append(ctx context.Context, b store.Batch) error {
	before, after := f.fail()
	if before {
		return errAway
	}
	err := f.Writer.Append(ctx, b)
	if err == nil && after {
		return errAway
	}
	return err
}

func TestEveryTransitionIsWrittenOnceWhateverFailsAndWhicheverSinkWrites(t *testing.T) {
	t.Parallel()
	to := openStore(t)
	partition := int32(0)
	rapid.Check(t, func(rt *rapid.T) {
		partition++ // each case has a partition and users of its own
		log := storetest.DrawLog(rt, 5, 25)
		for _, change := range log {
			change.User += schemas.UserID(100 * partition)
		}
		items := logged(log)
		end := int64(2*len(log) + 5)
		chance := func(name string) bool { return rapid.IntRange(0, 3).Draw(rt, name) == 0 }
		unreliable := flaky{Writer: to, fail: func() (bool, bool) { return chance("before"), chance("after") }}
		// Two owners, either of which may believe it is the only one.
		type owner struct {
			sink *sink.Sink
			at   int64
		}
		owners := []*owner{{sink: newSink(unreliable)}, {sink: newSink(unreliable)}}
		for steps := 0; owners[0].at < end && owners[1].at < end && steps < 400; steps++ {
			o := owners[rapid.IntRange(0, 1).Draw(rt, "owner")]
			if chance("restart") {
				o.sink = newSink(unreliable)
				next := must.Get(o.sink.Start(context.Background(), stream.Assignment{Partition: partition}))(rt)
				o.at = max(next.Next, 0)
			}
			until := min(end, o.at+rapid.Int64Range(1, 12).Draw(rt, "length"))
			run := batch(items, o.at, until)
			run.Partition = partition
			if err := o.sink.Apply(context.Background(), run); err == nil {
				o.at = until
			} else if !errors.Is(err, errAway) {
				rt.Fatal(err)
			}
		}
		if owners[0].at < end && owners[1].at < end {
			rt.Skip("not at the end")
		}
		wantStore(rt, to, partition, end, log)
	})
}

func TestALogWhoseStoredOffsetIsBeyondItsEndIsWrittenFromItsStartOnAndNotTakenForWritten(t *testing.T) {
	t.Parallel()
	to := openStore(t)
	log := storetest.RandomLog(1, 5, 60)
	items := logged(log[:30])
	for _, change := range log[30:] {
		change.Version += schemas.NewVersion(1, 0, 0) // of the next log epoch
	}
	s := newSink(to)
	must.Do(t, s.Apply(t.Context(), batch(items, 0, 70)))
	// The new log's offsets begin at 0 again; Start's answer lies beyond its end.
	for restart, until := range []int64{10, 30, 70} {
		s = newSink(to)
		must.Get(s.Start(t.Context(), stream.Assignment{}))(t)
		from := []int64{0, 10, 30}[restart]
		must.Do(t, s.Apply(t.Context(), batch(logged(log[30:]), from, until)))
	}
	wantStore(t, to, 0, 70, log)
}

// forgetful is a store that fell back to an older state.
type forgetful struct {
	store.Writer
	next int64
}

func (f *forgetful) Position(context.Context, int32) (store.Position, error) {
	return store.Position{Next: f.next}, nil
}

func (f *forgetful) Append(_ context.Context, b store.Batch) error {
	if b.Expected != f.next {
		return store.ErrFenced
	}
	f.next = b.Next
	return nil
}

func TestAStoreThatLostTransactionsStopsThePartitionUntilItIsReset(t *testing.T) {
	t.Parallel()
	to := &forgetful{next: store.Unknown}
	s := newSink(to)
	items := logged(storetest.RandomLog(1, 5, 20))
	must.Do(t, s.Apply(t.Context(), batch(items, 0, 10)))
	to.next = 4
	for range 2 {
		if err := s.Apply(t.Context(), batch(items, 10, 20)); !errors.Is(err, sink.ErrStoreBehind) {
			t.Fatalf("error %v, want %v", err, sink.ErrStoreBehind)
		}
	}
	if next, err := s.Start(t.Context(), stream.Assignment{}); err != nil || next.Next != 4 {
		t.Fatalf("starts anew at %d (%v), want 4", next.Next, err)
	}
	if err := s.Apply(t.Context(), batch(items, 4, 20)); err != nil || to.next != 20 {
		t.Fatalf("next %d (%v), want 20", to.next, err)
	}
}
