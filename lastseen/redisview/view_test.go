package redisview

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) {
	// A pool of go-redis that is closed while it finds its server away looks again within
	// a second, and only then ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

const week = 7 * 24 * time.Hour

func open(tb testing.TB, server *redistest.Server) *View {
	tb.Helper()
	v := must.Get(Open(Options{Addrs: []string{server.Addr}, Prefix: server.Prefix}, week))(tb)
	tb.Cleanup(func() {
		if err := v.Close(); err != nil {
			tb.Error(err)
		}
	})
	return v
}

func entry(tb testing.TB, v *View, user schemas.UserID) Entry {
	tb.Helper()
	entries, _, err := v.Read(tb.Context(), []schemas.UserID{user})
	must.Do(tb, err)
	return entries[0]
}

func TestUsersAreReadAsTheyWereWrittenBatchByBatch(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { readsWhatWasWritten(t, open(t, server)) })
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		// miniredis says it is a cluster of one node.
		v := must.Get(Open(Options{Addrs: []string{redistest.Mini(t).Addr}, Cluster: true}, week))(t)
		defer func() { must.Do(t, v.Close()) }()
		readsWhatWasWritten(t, v)
		_, progress, err := v.Read(t.Context(), []schemas.UserID{1})
		must.Do(t, err)
		if len(progress) != 0 {
			t.Errorf("progress %v", progress)
		}
	})
}

func readsWhatWasWritten(t *testing.T, v *View) {
	t.Helper()
	log := storetest.RandomLog(1, 300, 2000)
	want := map[schemas.UserID]schemas.Current{}
	for start := 0; start < len(log); start += 500 {
		// What was written before comes again.
		must.Get(v.Write(t.Context(), 1, store.Fold(log[max(0, start-100):start+500])))(t)
	}
	for _, change := range log {
		want[change.User] = store.After(want[change.User], change)
	}
	ids := make([]schemas.UserID, 0, len(want)+1)
	for id := range want {
		ids = append(ids, id)
	}
	ids = append(ids, 1_000_000)
	entries, _, err := v.Read(t.Context(), ids)
	must.Do(t, err)
	for i, e := range entries {
		if ids[i] == 1_000_000 {
			if e.Found {
				t.Error("a user never written is found")
			}
			continue
		}
		got := e.Current
		w := want[ids[i]]
		w.Override = schemas.Override{State: w.Override.State, LastSeen: w.Override.LastSeen, Audience: w.Override.Audience}
		// Without history, since and hidden are left open rather than guessed.
		if got.Since == 0 {
			got.Since = w.Since
		}
		if got.Hidden == 0 {
			got.Hidden = w.Hidden
		}
		if got != w {
			t.Fatalf("user %d is %+v, want %+v", ids[i], got, w)
		}
	}
}

func TestWritesInAnyOrderAndNumberEndWithTheNewestVersion(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	user := schemas.UserID(0)
	rapid.Check(t, func(rt *rapid.T) {
		user++ // each case on a key of its own
		log := storetest.DrawLog(rt, 1, 12)
		var want schemas.Current
		hid := false
		for _, change := range log {
			change.User = user
			hid = hid || change.Visibility == schemas.Nobody
			want = store.After(want, change)
		}
		order := rapid.SliceOfN(rapid.IntRange(0, len(log)-1), 0, 30).Draw(rt, "order")
		for _, i := range append(order, len(log)-1) {
			must.Get(v.Write(t.Context(), 1, store.Fold(log[i:i+1])))(t)
		}
		e := entry(t, v, user)
		if e.Version != want.Version || e.State != want.State || e.Visibility != want.Visibility || e.LastSeen > want.LastSeen ||
			!hid && e.LastSeen != want.LastSeen { // the hide or the show itself may not have been among those written
			rt.Fatalf("entry %+v, want %+v", e, want)
		}
	})
}

func TestOneUserTwiceInOneWriteEndsWithTheNewestVersion(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		at := func(version schemas.Version, state schemas.State) store.Update {
			return store.Update{Current: schemas.Current{User: 1, State: state, Since: 1000, LastSeen: 1000, Visibility: schemas.Everyone, Version: version},
				SinceKnown: true, HiddenKnown: true, TimesKnown: true}
		}
		written, err := v.Write(t.Context(), 1, []store.Update{at(2, schemas.Away), at(9, schemas.Offline), at(5, schemas.Online)})
		must.Do(t, err)
		if got := entry(t, v, 1); got.Version != 9 || got.State != schemas.Offline || written != 2 {
			t.Errorf("%d written, and version %d is there", written, got.Version)
		}
	})
}

func TestOnlyUsersWhoAreOfflineAndVisibleToAllExpire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		user := schemas.Current{User: 7, Since: 1, Version: 1, Visibility: schemas.Everyone}
		for _, step := range []struct {
			state      schemas.State
			visibility schemas.Visibility
			audience   schemas.Version
			expires    bool
		}{
			{schemas.Offline, schemas.Everyone, 0, true},
			{schemas.Online, schemas.Everyone, 0, false},
			{schemas.Away, schemas.Everyone, 0, false},
			{schemas.Offline, schemas.Everyone, 0, true},
			// The durable store alone could not say that a long absent user hides, or from whom,
			// were it away.
			{schemas.Offline, schemas.Nobody, 0, false},
			{schemas.Offline, schemas.Everyone, 5, false},
		} {
			user.Version++
			user.State, user.Visibility, user.Override.Audience = step.state, step.visibility, step.audience
			_, err := v.Write(t.Context(), 1, []store.Update{{Current: user, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
			must.Do(t, err)
			left := must.Get(v.client.PTTL(t.Context(), v.userKey(7)).Result())(t)
			if (left > 0) != step.expires || left > week {
				t.Errorf("%+v: time to live %v", step, left)
			}
		}
	})
}

func TestAnErasedUserLeavesAMarkForAnHourAndNoTimes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		online := &schemas.Transition{User: 7, From: schemas.Offline, To: schemas.Online, At: 100, LastSeen: 100, LastActive: 90,
			Cause: schemas.FirstBeat, Kinds: schemas.SetOfKinds(schemas.Web), Visibility: schemas.Everyone, Version: 5}
		erased := &schemas.Transition{User: 7, From: schemas.Online, To: schemas.Offline, At: 200, Cause: schemas.Erased,
			Visibility: schemas.Everyone, Version: 6, ErasedUntil: 300}
		back := &schemas.Transition{User: 7, From: schemas.Offline, To: schemas.Away, At: 250, LastSeen: 80, Cause: schemas.FirstBeat,
			Visibility: schemas.Everyone, Version: 8}
		write := func(changes ...*schemas.Transition) Entry {
			t.Helper()
			must.Get(v.Write(t.Context(), 1, store.Fold(changes)))(t)
			return entry(t, v, 7)
		}
		for _, e := range []Entry{write(online, erased), write(online), write(erased)} {
			if !e.Erased || e.Complete() || e.Version != 6 || e.State != schemas.Offline || e.LastSeen != 0 || e.LastActive != 0 || e.Kinds != 0 {
				t.Errorf("an erased user is %+v", e)
			}
		}
		left, err := v.client.PTTL(t.Context(), v.userKey(7)).Result()
		if must.Do(t, err); left <= 0 || left > time.Hour {
			t.Errorf("time to live %v", left)
		}
		if e := write(back); e.Erased || !e.Complete() || e.LastSeen != 80 || e.LastActive != 0 || e.Since != 250 {
			t.Errorf("a user who came back is %+v", e)
		}
		v7 := *online
		v7.Version = 9
		erased.Version, back.Version = 10, 11
		if e := write(&v7, erased, back); e.Erased || e.LastSeen != 80 || e.LastActive != 0 {
			t.Errorf("a user who came back in the same batch is %+v", e)
		}
	})
}

func TestWhatOneTransitionDoesNotHoldIsLeftToTheDurableStore(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	devices := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Online, At: 100, Cause: schemas.DevicesChanged,
		Visibility: schemas.Nobody, Version: 5}
	must.Get(v.Write(t.Context(), 1, store.Fold([]*schemas.Transition{devices})))(t)
	if e := entry(t, v, 1); !e.Found || e.Complete() || e.Since != 0 || e.Hidden != 0 {
		t.Fatalf("entry %+v guesses", e)
	}
	// Its times may be of when the user hid: the show itself was missed.
	silent := &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Offline, At: 200, LastSeen: 150, Cause: schemas.Silent,
		Visibility: schemas.Everyone, Version: 6}
	must.Get(v.Write(t.Context(), 1, store.Fold([]*schemas.Transition{silent})))(t)
	if e := entry(t, v, 1); e.Complete() {
		t.Fatalf("entry %+v tells times that may be hidden ones", e)
	}
	arrives := &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online, At: 300, LastSeen: 300, Cause: schemas.FirstBeat,
		Visibility: schemas.Everyone, Version: 7}
	must.Get(v.Write(t.Context(), 1, store.Fold([]*schemas.Transition{arrives})))(t)
	if e := entry(t, v, 1); !e.Complete() || e.Since != 300 {
		t.Fatalf("entry %+v, want it complete", e)
	}
}

func TestConfirmingKeepsWhatIsNewerAndRaisesItsEpoch(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	user := schemas.Current{User: 1, State: schemas.Online, Since: 10, Version: 5, Visibility: schemas.Everyone}
	_, err := v.Write(t.Context(), 1, []store.Update{{Current: user, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
	must.Do(t, err)
	for _, step := range []struct {
		version schemas.Version
		epoch   int64
		want    Entry
	}{
		{4, 2, Entry{Epoch: 2, Current: user}},
		{5, 3, Entry{Epoch: 3, Current: user}},
		{5, 2, Entry{Epoch: 3, Current: user}},
	} {
		older := user
		older.Version, older.State = step.version, schemas.Away
		must.Get(v.Confirm(t.Context(), step.epoch, []schemas.Current{older}, nil, false))(t)
		if e := entry(t, v, 1); e.Epoch != step.want.Epoch || e.Current != step.want.Current {
			t.Errorf("after %+v: %+v", step, e)
		}
	}
}

func TestAMarkIsMovedOnlyFromWhereItIs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		first, second := Progress{Epoch: 1, Watermark: 100, Next: -1}, Progress{Epoch: 1, Watermark: 200, Next: 7}
		for _, step := range []struct{ from, to, want Progress }{
			{first, second, Progress{}},
			{Progress{}, first, first},
			{Progress{}, second, first},
			{first, second, second},
			{first, second, second}, // an attempt whose answer was lost
			{second, Progress{Epoch: 2, Rebuilding: true}, Progress{Epoch: 2, Rebuilding: true}},
		} {
			got := must.Get(v.Move(t.Context(), 3, step.from, step.to))(t)
			if got != step.want {
				t.Fatalf("moving %+v to %+v: %+v is there, want %+v", step.from, step.to, got, step.want)
			}
		}
		got := must.Get(v.Progress(t.Context(), 3))(t)
		if got != (Progress{Epoch: 2, Rebuilding: true}) {
			t.Errorf("progress %+v", got)
		}
	})
}

func TestScriptsAreSentAgainToARedisThatForgotThem(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		for i := range 3 {
			user := schemas.Current{User: 1, State: schemas.Online, Since: 1, Version: schemas.Version(i + 1), Visibility: schemas.Everyone}
			written, err := v.Write(t.Context(), 1, []store.Update{{Current: user, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
			must.Do(t, err)
			if written != 1 {
				t.Fatalf("%d written", written)
			}
			must.Do(t, v.client.ScriptFlush(t.Context()).Err())
		}
	})
}

func TestAForeignValueCountsAsNotThereAndIsWrittenOver(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	for _, value := range []string{"", "online", strings.Repeat("1", valueLength-1), strings.Repeat("z", valueLength), "1" + strings.Repeat("f", valueLength-1)} {
		must.Do(t, v.client.Set(t.Context(), v.userKey(1), value, 0).Err())
		if entry(t, v, 1).Found {
			t.Errorf("%q is understood", value)
		}
		user := schemas.Current{User: 1, State: schemas.Online, Since: 1, Version: 1, Visibility: schemas.Everyone}
		_, err := v.Write(t.Context(), 1, []store.Update{{Current: user, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
		must.Do(t, err)
		if !entry(t, v, 1).Found {
			t.Errorf("%q is not written over", value)
		}
	}
}

func TestAReadHeedsItsDeadlineWhenRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Real(t)
	if server.Prefix != "" {
		t.Skip("STILLHERE_TEST_REDIS names a server that is not ours to pause")
	}
	v := open(t, server)
	must.Do(t, v.Ping(t.Context()))
	must.Get(server.Do("CLIENT PAUSE 20000"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, _, err := v.Read(ctx, []schemas.UserID{1})
	if !errors.Is(err, context.DeadlineExceeded) && (err == nil || time.Since(started) > 5*time.Second) {
		t.Fatalf("error %v after %v", err, time.Since(started))
	}
}

func TestValuesComeBackFromTheirStoredForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const instants = 1<<47 - 1
		want := Entry{Found: true, Epoch: rapid.Int64Range(0, instants).Draw(t, "epoch"), Current: schemas.Current{
			User: 5, State: schemas.State(rapid.IntRange(1, 3).Draw(t, "state")),
			Since:      schemas.Millis(rapid.Int64Range(0, instants).Draw(t, "since")),
			LastSeen:   schemas.Millis(rapid.Int64Range(0, instants).Draw(t, "seen")),
			LastActive: schemas.Millis(rapid.Int64Range(0, instants).Draw(t, "active")),
			Kinds:      schemas.KindSet(rapid.Uint16Max(deniesMark-1).Draw(t, "kinds")),
			Override: schemas.Override{State: schemas.OverrideState(rapid.IntRange(0, 3).Draw(t, "override")),
				LastSeen: schemas.LastSeen(rapid.IntRange(0, 3).Draw(t, "last seen")),
				Audience: schemas.Version(max(0, rapid.Int64Range(-5, 1<<62).Draw(t, "audience")))},
			Visibility: schemas.Visibility(rapid.IntRange(1, 2).Draw(t, "visibility")),
			Version:    schemas.Version(rapid.Int64Min(1).Draw(t, "version")),
			Hidden:     schemas.Version(rapid.Int64Min(0).Draw(t, "hidden")),
		}}
		text, length := string(appendValue(nil, want)), valueLength
		if want.Override.Audience != 0 {
			length += audience
		}
		if got := parseValue(5, text); len(text) != length || got != want {
			t.Fatalf("%q is read as %+v, want %+v", text, got, want)
		}
	})
}

func BenchmarkReadOf50(b *testing.B) {
	v := open(b, redistest.Real(b))
	const users, batch, partitions = 10_000, 50, 64
	must.Get(v.Write(b.Context(), 1, store.Fold(storetest.RandomLog(1, users, 5*users))))(b)
	for p := range int32(partitions) {
		_, err := v.Move(b.Context(), p, Progress{}, Progress{Epoch: 1795268780758, Watermark: 1795268780758, Next: 1_000_000})
		must.Do(b, err)
	}
	// Of the ids above, nobody is there.
	for name, ids := range map[string]int{"of whom few are absent": users, "of whom half are absent": 2 * users} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				read := make([]schemas.UserID, batch)
				for n := 0; pb.Next(); n++ {
					for i := range read {
						read[i] = schemas.UserID((n*batch+i*37)%ids + 1)
					}
					if _, _, err := v.Read(b.Context(), read); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
		})
	}
}

func BenchmarkWriteOf1000(b *testing.B) {
	v := open(b, redistest.Real(b))
	const batch = 1000
	log := storetest.RandomLog(1, 100_000, batch*b.N)
	b.ResetTimer()
	for i := range b.N {
		must.Get(v.Write(b.Context(), 1, store.Fold(log[i*batch:(i+1)*batch])))(b)
	}
	b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "transitions/s")
}
