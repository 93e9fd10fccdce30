package shown

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheSetIsTheNewestRecordOfEveryUser(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, want := NewSet(), map[schemas.UserID]*schemas.Status{}
		users := []schemas.UserID{1, 2, 3, 1 << 40, 1<<63 - 1}
		for range rapid.IntRange(0, 60).Draw(t, "records") {
			user := rapid.SampledFrom(users).Draw(t, "user")
			record := &schemas.Record{Key: user.Key()}
			delete(want, user)
			if rapid.Bool().Draw(t, "status") {
				s := &schemas.Status{User: user, State: rapid.SampledFrom([]schemas.State{schemas.Offline, schemas.Away, schemas.Online}).Draw(t, "state"),
					Visibility: rapid.SampledFrom([]schemas.Visibility{schemas.Everyone, schemas.Nobody}).Draw(t, "visibility"),
					Version:    schemas.Version(rapid.Int64Range(1, 100).Draw(t, "version"))}
				record.Value, want[user] = s.Encode(), s
			}
			seen := must.Get(decode(record, nil))(t)
			must.Do(t, r.Apply(t.Context(), stream.Batch[Entry]{Items: []Entry{seen}}))
		}
		var present []schemas.UserID
		for _, u := range users {
			s := want[u]
			if s != nil && s.State != schemas.Offline {
				present = append(present, u)
			}
			if hides := s != nil && s.Visibility == schemas.Nobody && s.Version > 50; r.HiddenAfter(u, 50) != hides {
				t.Fatalf("user %d is hidden: %v, want %v", u, !hides, hides)
			}
		}
		if got := r.Filter(nil, users); !slices.Equal(got, present) || r.Count() != uint64(len(present)) {
			t.Fatalf("present are %v (%d), want %v", got, r.Count(), present)
		}
	})
}

func TestAStatusThatCannotBeReadIsRejected(t *testing.T) {
	t.Parallel()
	for _, r := range []schemas.Record{{Key: []byte("x")}, {Key: schemas.UserID(1).Key(), Value: []byte{0xff}}} {
		if _, err := decode(&r, nil); !schemas.IsInvalid(err) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	r := NewSet()
	for i := range schemas.UserID(1_000_000) {
		if rand.IntN(2) == 0 {
			r.present.Add(uint64(i*7 + 1))
		}
	}
	page, kept := make([]schemas.UserID, 1000), make([]schemas.UserID, 0, 1000)
	for b.Loop() {
		first := rand.Int64N(900_000)
		for i := range page {
			page[i] = schemas.UserID((first+int64(i))*7 + 1)
		}
		kept = r.Filter(kept[:0], page)
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "followers/s")
}

func TestAPartitionIsReadFromItsStoredOffsetAndRemovedOnlyWhenTheLogLacksThatOffset(t *testing.T) {
	t.Parallel()
	const partitions = 4
	log := stream.Assignment{Partitions: partitions, LogStart: 0, LogEnd: 100, TopicID: schemas.TopicID{1}}
	for name, c := range map[string]struct {
		again stream.Assignment
		next  int64
		stays bool
	}{
		"the same log":         {log, 50, true},
		"as long as was read":  {stream.Assignment{Partitions: partitions, LogEnd: 50, TopicID: log.TopicID}, 50, true},
		"cut at its start":     {stream.Assignment{Partitions: partitions, LogStart: 51, LogEnd: 100, TopicID: log.TopicID}, -1, false},
		"cut at its end":       {stream.Assignment{Partitions: partitions, LogEnd: 49, TopicID: log.TopicID}, -1, false},
		"a recreated topic":    {stream.Assignment{Partitions: partitions, LogEnd: 100, TopicID: schemas.TopicID{2}}, -1, false},
		"a topic without name": {stream.Assignment{Partitions: partitions, LogEnd: 100}, 50, true},
	} {
		r := NewSet()
		start := func(partition int32, at stream.Assignment) int64 {
			at.Partition = partition
			kept, err := r.Start(t.Context(), at)
			if err != nil || kept.Topic != at.TopicID {
				t.Fatal(kept, err)
			}
			return kept.Next
		}
		var users [partitions]schemas.UserID // one of each partition
		for id := schemas.UserID(1); slices.Contains(users[:], 0); id++ {
			users[schemas.PartitionOf(id, partitions)] = id
		}
		for p := range int32(partitions) {
			if next := start(p, log); next != -1 {
				t.Errorf("%s: partition %d begins at %d", name, p, next)
			}
			seen := []Entry{{User: users[p], Present: true, Hidden: 7}}
			must.Do(t, r.Apply(t.Context(), stream.Batch[Entry]{Partition: p, Items: seen, Next: 50}))
		}
		if next := start(2, c.again); next != c.next {
			t.Errorf("%s: goes on at %d, not %d", name, next, c.next)
		}
		want := slices.Clone(users[:])
		if !c.stays {
			want = slices.Delete(want, 2, 3)
		}
		if got := r.Filter(nil, users[:]); !slices.Equal(got, want) {
			t.Errorf("%s: %v are present, not %v", name, got, want)
		}
		if !r.HiddenAfter(users[2], 6) {
			t.Errorf("%s: a hidden user is seen", name)
		}
		if next := start(2, c.again); next != c.next {
			t.Errorf("%s: at the next time it goes on at %d", name, next)
		}
	}
}

func TestAHiddenSetHoldsNoPresentUsers(t *testing.T) {
	t.Parallel()
	r := NewHiddenSet()
	must.Do(t, r.Apply(t.Context(), stream.Batch[Entry]{Items: []Entry{{User: 1, Present: true}, {User: 2, Present: true, Hidden: 9}}}))
	if r.Count() != 0 || !r.HiddenAfter(2, 8) || r.HiddenAfter(2, 9) || r.HiddenAfter(1, 1) {
		t.Errorf("%d are present", r.Count())
	}
}

func TestAnErasureIsKnownAsLongAsTheStatusNamesIt(t *testing.T) {
	t.Parallel()
	r := NewHiddenSet()
	status := schemas.Status{User: 1, State: schemas.Online, Visibility: schemas.Everyone, Version: 12, ErasedVersion: 9, WithheldUntil: 1000}
	for _, c := range []struct {
		value  []byte
		erased bool
	}{{status.Encode(), true}, {nil, false}} {
		e := must.Get(decode(&schemas.Record{Key: status.User.Key(), Value: c.value}, nil))(t)
		must.Do(t, r.Apply(t.Context(), stream.Batch[Entry]{Items: []Entry{e}}))
		if r.ErasedAfter(1, 8) != c.erased || r.ErasedAfter(1, 9) || r.ErasedAfter(2, 8) {
			t.Errorf("after %v: erased after 8 %v, after 9 %v", c.value, r.ErasedAfter(1, 8), r.ErasedAfter(1, 9))
		}
	}
}
