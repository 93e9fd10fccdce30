package here

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/schemas"
)

func TestTheRegisterIsTheNewestRecordOfEveryUser(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, want := NewRegister(), map[schemas.UserID]*schemas.Status{}
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
			seen, err := Decode(record)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Apply(t.Context(), schemas.Batch[Seen]{Items: []Seen{seen}}); err != nil {
				t.Fatal(err)
			}
		}
		var here []schemas.UserID
		for _, u := range users {
			s := want[u]
			if s != nil && s.State != schemas.Offline {
				here = append(here, u)
			}
			if hides := s != nil && s.Visibility == schemas.Nobody && s.Version > 50; r.Hides(u, 50) != hides {
				t.Fatalf("user %d hides: %v, want %v", u, !hides, hides)
			}
		}
		if got := r.Filter(nil, users); !slices.Equal(got, here) || r.Count() != uint64(len(here)) {
			t.Fatalf("here are %v (%d), want %v", got, r.Count(), here)
		}
	})
}

func TestAStatusThatCannotBeReadIsSetAside(t *testing.T) {
	t.Parallel()
	for _, r := range []schemas.Record{{Key: []byte("x")}, {Key: schemas.UserID(1).Key(), Value: []byte{0xff}}} {
		if _, err := Decode(&r); !schemas.IsInvalid(err) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	r := NewRegister()
	for i := range schemas.UserID(1_000_000) {
		if rand.IntN(2) == 0 {
			r.here.Add(uint64(i*7 + 1))
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
