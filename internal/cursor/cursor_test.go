package cursor

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// draw draws ascending users, and how far a reader has followed them.
func draw(t *rapid.T) ([]schemas.UserID, Position) {
	users := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<62), 0, 50, rapid.ID).Draw(t, "users")
	slices.Sort(users)
	p := Position{At: schemas.Millis(rapid.Int64Range(0, 1<<50).Draw(t, "at")), Versions: make([]schemas.Version, len(users))}
	ids := make([]schemas.UserID, len(users))
	for i, user := range users {
		ids[i] = schemas.UserID(user)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
		case 1:
			p.Versions[i] = Withheld
		default:
			p.Versions[i] = schemas.Version(rapid.Int64Range(1, 1<<63-1).Draw(t, "version"))
		}
	}
	return ids, p
}

func TestACursorComesBackToItsDeploymentAndItsUsersOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		users, p := draw(t)
		ours, theirs := &Key{1}, &Key{2}
		sealed := must.Get(Parse(ours.Seal(users, p)))(t)
		if got, ok := sealed.Open(ours, users); !ok || !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v %v, want %+v", got, ok, p)
		}
		if _, ok := sealed.Open(theirs, users); ok {
			t.Fatal("another deployment reads it")
		}
		if len(users) == 0 {
			return
		}
		others := slices.Clone(users)
		others[rapid.IntRange(0, len(others)-1).Draw(t, "other")]++
		if _, ok := sealed.Open(ours, others); ok {
			t.Fatal("it is read for other users")
		}
		if _, ok := sealed.Open(ours, users[1:]); ok {
			t.Fatal("it is read for fewer users")
		}
	})
}

func TestACursorOf1000UsersHasLessThan6000Characters(t *testing.T) {
	t.Parallel()
	users, versions := make([]schemas.UserID, 1000), make([]schemas.Version, 1000)
	for i := range users {
		users[i] = schemas.UserID(i+1) * 9_000_000_000_000_000
		versions[i] = schemas.NewVersion(3, 1<<29+int64(i)*1_000_000, 0)
	}
	if n := len(new(Key).Seal(users, Position{At: 1795168800123, Versions: versions})); n >= 6000 {
		t.Errorf("it has %d", n)
	}
}

func TestNoChangedCharacterOfACursorIsRead(t *testing.T) {
	t.Parallel()
	text := []byte(new(Key).Seal([]schemas.UserID{1, 2, 3}, Position{At: 7, Versions: []schemas.Version{0, 1 << 60, Withheld}}))
	for i := range text {
		changed := bytes.Clone(text)
		if changed[i] = 'A'; changed[i] == text[i] {
			changed[i] = 'B'
		}
		if _, err := Parse(string(changed)); err == nil {
			t.Errorf("character %d may be changed", i)
		}
	}
}

// Not parallel: it counts the bytes that the whole process allocates.
func TestACursorOfManyUsersInFewBytesAllocatesNothingForThem(t *testing.T) {
	text := new(Key).Seal(make([]schemas.UserID, MaxUsers), Position{Versions: make([]schemas.Version, MaxUsers)})
	if len(text) > 100 {
		t.Fatalf("the text has %d characters", len(text))
	}
	const rounds = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		sealed := must.Get(Parse(text))(t)
		if _, ok := sealed.Open(&Key{1}, []schemas.UserID{1}); ok {
			t.Fatal("it is of other users")
		}
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > 1000 {
		t.Errorf("%d bytes are allocated", n)
	}
}

func FuzzWhatIsParsedIsSealedTheSame(f *testing.F) {
	f.Add("")
	f.Add("AQ")
	f.Add(new(Key).Seal([]schemas.UserID{1, 2, 3}, Position{At: 7, Versions: []schemas.Version{0, 1 << 60, Withheld}}))
	f.Add(new(Key).Seal(nil, Position{}))
	f.Fuzz(func(t *testing.T, text string) {
		sealed, err := Parse(text)
		if err != nil {
			return
		}
		position := sealed.position()
		again, err := Parse(new(Key).Seal(make([]schemas.UserID, len(position.Versions)), position))
		if err != nil || !reflect.DeepEqual(again.position(), position) {
			t.Errorf("%+v became %+v (%v)", position, again, err)
		}
	})
}

func TestEveryNodeUsesTheKeyOfTheDeploymentAndRestoresOneThatIsLost(t *testing.T) {
	t.Parallel()
	var stored []byte
	away := errors.New("away")
	var fault error
	keep := func(_ context.Context, own []byte) ([]byte, error) {
		if fault == nil && stored == nil {
			stored = bytes.Clone(own)
		}
		return stored, fault
	}
	get := func(k *Keys) Key {
		t.Helper()
		k.when = time.Time{} // it is time to look again
		key := must.Get(k.Key(t.Context()))(t)
		return *key
	}
	one, two, three := NewKeys(keep), NewKeys(keep), NewKeys(keep)
	key := get(one)
	if get(two) != key || key == (Key{}) {
		t.Fatal("two nodes have two keys")
	}
	stored = nil // Redis was emptied
	if get(two) != key || get(three) != key {
		t.Error("the key is not restored")
	}
	fault = away
	if get(one) != key {
		t.Error("a node needs Redis again")
	}
	if _, err := NewKeys(keep).Key(t.Context()); !errors.Is(err, away) {
		t.Errorf("a node without a key says %v", err)
	}
}
