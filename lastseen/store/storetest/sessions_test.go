package storetest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// memoryTopic has one partition, with a change at every offset.
type memoryTopic struct {
	changes []*schemas.Transition
	start   int64
}

func (*memoryTopic) Partitions(context.Context) (int32, error) { return 1, nil }

func (*memoryTopic) Topic(context.Context) (schemas.TopicID, error) { return schemas.TopicID{}, nil }

func (t *memoryTopic) Bounds(context.Context, int32) (start, end int64, err error) {
	return t.start, int64(len(t.changes)), nil
}

func (t *memoryTopic) OffsetSince(_ context.Context, _ int32, since schemas.Millis) (int64, error) {
	for offset := t.start; offset < int64(len(t.changes)); offset++ {
		if t.changes[offset].At >= since {
			return offset, nil
		}
	}
	return int64(len(t.changes)), nil
}

func (t *memoryTopic) Read(ctx context.Context, _ int32, from, to int64, each func(*schemas.Record) error) error {
	for offset := from; offset < to; offset++ {
		if offset < t.start {
			return replay.ErrOvertaken
		}
		change := t.changes[offset]
		if err := each(&schemas.Record{Offset: offset, Time: change.At, Key: change.User.Key(), Value: change.Encode()}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sessionUsers is how many users the history has.
const sessionUsers = 20

// sessionsOfACutLog writes a random history of some days, with hidden users and a new log epoch in
// the middle, and drops its start in steps. The sessions of any range are those that all changes
// give.
func sessionsOfACutLog(t *testing.T, s Store) {
	const length, stages = 400, 5
	random := rand.New(rand.NewPCG(5, 7))
	log := &memoryTopic{changes: RandomLog(random.Uint64(), sessionUsers, length)}
	for i, change := range log.changes {
		change.At = Start + schemas.Millis(i)*day/20 + schemas.Millis(random.IntN(2)*500) // 20 days
		epoch := uint32(1 + 2*i/length)
		change.Version = schemas.NewVersion(epoch, int64(i%(length/2)), 0)
	}
	all := log.changes
	expected := store.Unknown
	for stage := range stages {
		through := (stage + 1) * length / stages
		log.changes = all[:through]
		written := through - random.IntN(10)
		from := max(0, expected)
		must.Do(t, s.Append(t.Context(), store.Batch{Expected: expected, Next: int64(written), Changes: all[from:written]}))
		expected = int64(written)
		log.start = random.Int64N(int64(written))
		if stage > 0 {
			forget(t, s, all[written-1-random.IntN(written/2)].At)
		}
		begins := must.Get(s.LogBegins(t.Context()))(t)
		for n := range 24 {
			from := all[random.IntN(through)].At + schemas.Millis(random.IntN(3)-1)
			if n < 3 {
				from = max(begins, Start) + schemas.Millis(n-1)
			}
			r := asked{from: from, to: from + 1 + schemas.Millis(random.Int64N(int64(6*day))), away: n%2 == 0}
			if n%3 == 0 {
				r.user = schemas.UserID(1 + random.IntN(sessionUsers))
			}
			r.want(t, log, s, begins, written)
		}
	}
}

// asked is a range of which sessions are wanted.
type asked struct {
	from, to schemas.Millis
	user     schemas.UserID // 0: all
	away     bool
}

func (r asked) want(t *testing.T, log *memoryTopic, s Store, begins schemas.Millis, written int) {
	t.Helper()
	o := replay.Defaults()
	o.Filter.From, o.Filter.To = r.from, r.to
	if r.user != 0 {
		o.Filter.Users = []schemas.UserID{r.user}
	}
	var got []replay.Session
	_, err := replay.Sessions(t.Context(), log, s, &o, r.away, func(one *replay.Session) error { got = append(got, *one); return nil })
	var forgotten *store.ForgottenError
	switch {
	case r.from < begins:
		if !errors.As(err, &forgotten) || forgotten.Begins != begins || forgotten.Asked != r.from || len(got) > 0 {
			t.Errorf("from %s of a log from %s on: %d sessions, %v", r.from, begins, len(got), err)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	want := r.reference(log.changes)
	blind := r.blind(log.changes[:written], begins)
	visible := func(all []replay.Session) []replay.Session {
		all = slices.DeleteFunc(all, func(one replay.Session) bool {
			return one.Kind != 0 && (one.Start < blind[one.User] || one.End == blind[one.User])
		})
		slices.SortFunc(all, sessionOrder)
		return all
	}
	for i := range want {
		// It may have begun before the first change by which the kinds are known.
		if one := &want[i]; one.Kind != 0 && one.Start <= blind[one.User] && one.End > blind[one.User] {
			one.Start, one.Before = blind[one.User], true
		}
	}
	got, want = visible(got), visible(want)
	for _, one := range got {
		if !slices.Contains(want, one) {
			t.Errorf("%+v of a log from %s on gives %+v", r, begins, one)
		}
	}
	for _, one := range want {
		if !slices.Contains(got, one) {
			t.Errorf("%+v of a log from %s on lacks %+v", r, begins, one)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%+v of a log from %s on gives %d sessions, want %d", r, begins, len(got), len(want))
	}
}

func sessionOrder(a, b replay.Session) int {
	return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
}

// blind is, of users who were present at the start of the range and of whom the log has no
// change from before it but one from after it, the instant of that one: until then their
// kinds are not known.
func (r asked) blind(changes []*schemas.Transition, begins schemas.Millis) map[schemas.UserID]schemas.Millis {
	blind, seen := map[schemas.UserID]schemas.Millis{}, map[schemas.UserID]bool{}
	for _, change := range changes {
		if change.At < begins || seen[change.User] {
			continue
		}
		if seen[change.User] = true; change.At >= r.from && (change.From == schemas.Online || r.away && change.From == schemas.Away) {
			blind[change.User] = change.At
		}
	}
	return blind
}

// reference folds all changes, one user and one kind at a time.
func (r asked) reference(changes []*schemas.Transition) []replay.Session {
	var found []replay.Session
	for user := schemas.UserID(1); user <= sessionUsers; user++ {
		if r.user != 0 && r.user != user {
			continue
		}
		for kind := range schemas.DeviceKind(len(schemas.Kinds) + 1) {
			var open *replay.Session
			for _, change := range changes {
				if change.User != user || change.At >= r.to {
					continue
				}
				online := (change.To == schemas.Online || r.away && change.To == schemas.Away) && (kind == 0 || change.Kinds&(1<<kind) != 0)
				switch {
				case online && open == nil:
					open = &replay.Session{User: user, Kind: kind, Start: max(change.At, r.from), Before: change.At < r.from}
				case !online && open != nil:
					if open.End = change.At; change.At >= r.from {
						found = append(found, *open)
					}
					open = nil
				}
			}
			if open != nil {
				open.End, open.Open = r.to, true
				found = append(found, *open)
			}
		}
	}
	return found
}
