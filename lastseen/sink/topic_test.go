package sink_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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

// Two topics of one name.
var gone, anew = schemas.TopicID{1}, schemas.TopicID{2}

func wantKept(t *testing.T, s *sink.Sink, at stream.Assignment, want stream.StoredOffset) {
	t.Helper()
	if stored, err := s.Start(t.Context(), at); err != nil || stored != want {
		t.Fatalf("start says %+v (%v), want %+v", stored, err, want)
	}
}

func wantPosition(t rapid.TB, s *sqlitestore.Store, partition int32, want store.Position) {
	t.Helper()
	if at, err := s.Position(context.Background(), partition); err != nil || at != want {
		t.Fatalf("the position is %+v (%v), want %+v", at, err, want)
	}
}

// wantLog wants the audit log to be log: everything, once.
func wantLog(t rapid.TB, s *sqlitestore.Store, log []*schemas.Transition) {
	t.Helper()
	type row struct {
		user    schemas.UserID
		at      schemas.Millis
		version schemas.Version
	}
	want := map[row]bool{}
	for _, change := range log {
		want[row{change.User, change.At, change.Version}] = true
	}
	rows := 0
	err := s.Changes(context.Background(), store.Range{}, func(e *store.Entry) error {
		rows++
		if !want[row{e.User, e.At, e.Version}] {
			t.Fatalf("a change that nobody made: %+v", *e)
		}
		return nil
	})
	if err != nil || rows != len(want) {
		t.Fatalf("%d changes (%v), want %d", rows, err, len(want))
	}
}

func TestARecreatedTopicIsWrittenFromItsStartAlsoIfTheStoredOffsetLiesInIt(t *testing.T) {
	t.Parallel()
	to := openStore(t)
	log := storetest.RandomLog(1, 5, 60)
	old, now := logged(log[:20]), logged(log[20:]) // 40 offsets and 80
	zombie := newSink(to)
	wantKept(t, zombie, stream.Assignment{TopicID: gone, LogEnd: 40}, stream.StoredOffset{Next: store.Unknown})
	must.Do(t, zombie.Apply(t.Context(), batch(old, 0, 30)))
	wantPosition(t, to, 0, store.Position{Next: 30, Topic: gone, LogEpoch: 1})

	s := newSink(to)
	at := stream.Assignment{TopicID: anew, LogStart: 4, LogEnd: 80}
	wantKept(t, s, at, stream.StoredOffset{Next: 4, Topic: gone})
	wantPosition(t, to, 0, store.Position{Next: 4, Topic: anew})
	for _, until := range []int64{12, 30} { // to where the zombie expects the store
		must.Do(t, s.Apply(t.Context(), batch(now, max(4, until-18), until)))
		if err := zombie.Apply(t.Context(), batch(old, 30, 40)); !errors.Is(err, sink.ErrStoreBehind) {
			t.Fatalf("the zombie: %v, want %v", err, sink.ErrStoreBehind)
		}
	}
	must.Do(t, s.Apply(t.Context(), batch(now, 30, 80)))
	wantPosition(t, to, 0, store.Position{Next: 80, Topic: anew, LogEpoch: 1})
	wantKept(t, newSink(to), at, stream.StoredOffset{Next: 80, Topic: anew})
	// The first two changes of the new log are before its start; those of the old that nobody wrote are gone.
	wantLog(t, to, append(append([]*schemas.Transition{}, log[:15]...), log[22:]...))
}

func TestAnOffsetThatAnOperatorHasSetIsTakenOverAndItsTopicFilledIn(t *testing.T) {
	t.Parallel()
	to := openStore(t)
	log := storetest.RandomLog(1, 5, 20)
	must.Do(t, to.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 10}))
	s := newSink(to)
	wantKept(t, s, stream.Assignment{TopicID: anew, LogEnd: 40}, stream.StoredOffset{Next: 10})
	wantPosition(t, to, 0, store.Position{Next: 10})
	must.Do(t, s.Apply(t.Context(), batch(logged(log), 10, 40)))
	wantPosition(t, to, 0, store.Position{Next: 40, Topic: anew, LogEpoch: 1})
	wantLog(t, to, log[5:])
}

// ledger is a store in memory of one partition, fenced as storetest wants it: the real
// ones take too long for thousands of writes.
type ledger struct {
	at   store.Position
	rows map[schemas.Version]bool
}

func (l *ledger) Position(context.Context, int32) (store.Position, error) { return l.at, nil }

func (l *ledger) Append(_ context.Context, b store.Batch) error {
	if b.Expected != l.at.Next || b.ExpectedTopic != l.at.Topic {
		return store.ErrFenced
	}
	l.at.Next, l.at.Topic = b.Next, b.Topic
	for _, change := range b.Changes {
		l.rows[change.Version] = true
	}
	return nil
}

// owner is a sink that believes the partition to be its own.
type owner struct {
	sink  *sink.Sink
	topic schemas.TopicID
	items []stream.Logged[*schemas.Transition]
	at    int64
	dead  bool
}

// restart is what the consumer does with what Start says.
func (o *owner) restart(t *rapid.T, to store.Writer, end int64) {
	o.sink = newSink(to)
	stored := must.Get(o.sink.Start(context.Background(), stream.Assignment{TopicID: o.topic, LogEnd: end}))(t)
	if o.at = max(stored.Next, 0); o.at > end || stored.Topic.Differs(o.topic) {
		o.at = 0
	}
}

func TestWhicheverSinkWritesAndOfWhateverTopicAllOfTheExistingTopicIsWritten(t *testing.T) {
	t.Parallel()
	reached := 0
	rapid.Check(t, func(rt *rapid.T) {
		to := &ledger{at: store.Position{Next: store.Unknown}, rows: map[schemas.Version]bool{}}
		log := storetest.DrawLog(rt, 5, 30)
		old, now := logged(log[:12]), logged(log[12:])
		end := int64(36)
		draw := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, name) }
		apply := func(o *owner, until int64) error {
			run := batch(o.items, o.at, until)
			err := o.sink.Apply(context.Background(), run)
			if err == nil {
				o.at = until
			}
			return err
		}
		// Zombies hold records of the topic that is gone, and cannot fetch others.
		zombies := []*owner{{topic: gone, items: old}, {topic: gone, items: old}}
		for _, z := range zombies {
			z.restart(rt, to, 24)
			must.Do(rt, apply(z, z.at+int64(1+draw("before", 12))))
		}
		owners := []*owner{{topic: anew, items: now}, {topic: anew, items: now}}
		for _, o := range owners {
			o.restart(rt, to, end)
		}
		done := func() bool { return owners[0].at >= end || owners[1].at >= end }
		for range 300 {
			if done() {
				break
			}
			if i := draw("zombie", 12); i < len(zombies) && !zombies[i].dead && zombies[i].at < 24 {
				z := zombies[i]
				if err := apply(z, min(24, z.at+int64(1+draw("length", 12)))); err != nil {
					z.dead = true // it starts anew, and its topic is not there
				}
				continue
			}
			o := owners[draw("owner", len(owners))]
			if draw("restart", 6) == 0 {
				o.restart(rt, to, end)
			}
			if o.at >= end {
				continue
			}
			err := apply(o, min(end, o.at+int64(1+draw("length", 12))))
			switch {
			case errors.Is(err, sink.ErrStoreBehind):
				o.restart(rt, to, end)
			case err != nil:
				rt.Fatal(err)
			}
		}
		if !done() {
			return
		}
		reached++
		for i, item := range now {
			if !to.rows[item.Message.Version] {
				rt.Fatalf("change %d of the new log, at offset %d, is not in the store", i, item.Offset)
			}
		}
	})
	if reached < 20 {
		t.Errorf("only %d cases came to the end", reached)
	}
}

func TestOfARestoredLogNothingIsWrittenBeforeALogEpochAboveTheStores(t *testing.T) {
	t.Parallel()
	to := openStore(t)
	log := storetest.RandomLog(1, 5, 20) // 40 offsets
	first := newSink(to)
	wantKept(t, first, stream.Assignment{TopicID: anew, LogEnd: 40}, stream.StoredOffset{Next: store.Unknown})
	whole := batch(logged(log), 0, 40)
	whole.Latest = 5000
	must.Do(t, first.Apply(t.Context(), whole))
	epoch := int64(log[19].Version.LogEpoch())
	stored := store.Position{Next: 40, Topic: anew, Latest: 5000, LogEpoch: epoch}
	wantPosition(t, to, 0, stored)

	// The last four changes are lost. Others get their versions.
	var again []*schemas.Transition
	for _, change := range log[16:] {
		other := *change
		other.At += 70_000
		again = append(again, &other)
	}
	above := *log[19]
	above.At, above.Version = above.At+80_000, schemas.NewVersion(uint32(epoch)+1, 3, 0)
	restored := logged(append(append(append([]*schemas.Transition{}, log[:16]...), again...), &above))
	metrics := lastseen.NewMetrics(prometheus.NewRegistry())
	awaits := func(want int64) { // 0: nothing
		t.Helper()
		if epoch, _ := metrics.Awaited.Of(lastseen.Sink); epoch != want {
			t.Errorf("log epoch %d is awaited, want %d", epoch, want)
		}
	}
	for range 2 { // also after a restart
		s := sink.New(to, lastseen.Defaults(), metrics)
		wantKept(t, s, stream.Assignment{TopicID: anew, LogEnd: 32}, stream.StoredOffset{Next: 40, Topic: anew, Latest: 5000})
		for _, from := range []int64{0, 32} {
			must.Do(t, s.Apply(t.Context(), batch(restored, from, min(from+32, 41))))
			wantPosition(t, to, 0, stored)
			wantLog(t, to, log)
			awaits(epoch + 1)
		}
		first = s
	}
	last := batch(restored, 36, 42)
	last.Latest = 6000
	for range 2 { // the second time nothing changes
		must.Do(t, first.Apply(t.Context(), last))
		wantPosition(t, to, 0, store.Position{Next: 42, Topic: anew, Latest: 6000, LogEpoch: epoch + 1})
		wantLog(t, to, append(append([]*schemas.Transition{}, log...), &above))
		awaits(0)
	}
}
