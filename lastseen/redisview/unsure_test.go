package redisview

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func unsureOf(tb testing.TB, v *View, user schemas.UserID) Unsure {
	tb.Helper()
	all := must.Get(v.Unsure(tb.Context(), []schemas.UserID{999, user}))(tb)
	return all[1]
}

func TestTheNewestRecordSaysWhetherAUserIsUnsureWhateverTheirOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		begin, end := Unsure{User: 1, Version: 10, Since: 1000}, Unsure{User: 1, Version: 20}
		for i, write := range []struct {
			records []Unsure
			written int
			want    Unsure
		}{{[]Unsure{begin}, 1, begin}, {[]Unsure{begin, end}, 2, end}, {[]Unsure{begin}, 0, end}} {
			written := must.Get(v.WriteUnsure(t.Context(), write.records))(t)
			if got := unsureOf(t, v, 1); written != write.written || got != write.want {
				t.Errorf("write %d: %d written, Redis has %+v, want %+v", i, written, got, write.want)
			}
		}
	})
}

func TestARecordOlderThanTheEntryOfItsUserIsNotWritten(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		for version, written := range map[schemas.Version]int{4: 0, 5: 1, 6: 1} {
			user := schemas.UserID(version)
			must.Get(v.Write(t.Context(), 1, []store.Update{{Current: schemas.Current{User: user, State: schemas.Online,
				Visibility: schemas.Everyone, Since: 1, Version: 5}, SinceKnown: true, TimesKnown: true}}))(t)
			if n, err := v.WriteUnsure(t.Context(), []Unsure{{User: user, Version: version, Since: 7}}); err != nil || n != written {
				t.Errorf("version %d: %d written (%v), want %d", version, n, err, written)
			}
		}
	})
}

func TestAnErasureDeletesThatAUserIsUnsure(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		must.Get(v.WriteUnsure(t.Context(), []Unsure{{User: 1, Version: 4, Since: 7}}))(t)
		must.Get(v.Write(t.Context(), 1, store.Fold([]*schemas.Transition{{User: 1, To: schemas.Offline, Cause: schemas.Erased,
			Visibility: schemas.Everyone, Version: 9, At: 5, ErasedUntil: 1e12}})))(t)
		if got := unsureOf(t, v, 1); got != (Unsure{}) {
			t.Errorf("Redis has %+v", got)
		}
	})
}

func FuzzWhatIsStoredOfAnUnsureUserReadsWithoutPanic(f *testing.F) {
	f.Add([]byte("1000000000000000a0000000003e8"))
	f.Fuzz(func(t *testing.T, text []byte) {
		u := parseUnsure(1, text)
		if u.User != 0 && string(appendHex(appendHex([]byte{format}, int64(u.Version), 16), int64(u.Since), 12)) != string(text) {
			t.Errorf("%q reads as %+v", text, u)
		}
	})
}

func TestWhatIsStoredOfAnUnsureUserReadsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Unsure{User: 1, Version: schemas.Version(rapid.Int64Min(1).Draw(t, "version")),
			Since: schemas.Millis(rapid.Int64Range(0, 1<<47).Draw(t, "since"))}
		text := appendHex(appendHex([]byte{format}, int64(want.Version), 16), int64(want.Since), 12)
		if got := parseUnsure(1, text); got != want {
			t.Errorf("%s reads as %+v, want %+v", text, got, want)
		}
	})
}
