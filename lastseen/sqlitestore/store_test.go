package sqlitestore

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
	"github.com/stillhere/stillhere/schemas"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(openOnly); path != "" {
		os.Exit(openedElsewhere(path))
	}
	goleak.VerifyTestMain(m)
}

func newStore(tb testing.TB, path string) *Store {
	tb.Helper()
	config := Defaults()
	config.Path = path
	s := must.Get(Open(tb.Context(), config))(tb)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func TestWhatWasWrittenIsThereAfterTheFileIsOpenedAgain(t *testing.T) {
	t.Parallel()
	// The name has everything that an address could misread.
	path := filepath.Join(t.TempDir(), "a b?c#d%20e.db")
	first := newStore(t, path)
	log := storetest.RandomLog(1, 3, 10)
	must.Do(t, first.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 10, Changes: log}))
	second := newStore(t, path)
	at, err := second.Position(t.Context(), 0)
	if err != nil || at.Next != 10 {
		t.Fatalf("next offset %d, %v; want 10", at.Next, err)
	}
}

func TestMaintainDropsExactlyWhatIsOlderThanTheRetention(t *testing.T) {
	t.Parallel()
	s := newStore(t, filepath.Join(t.TempDir(), "stillhere.db"))
	log := storetest.RandomLog(2, 1, 3*dropStep)
	for _, change := range log {
		change.Visibility = schemas.Everyone
	}
	must.Do(t, s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 10, Changes: log}))
	kept := log[2*dropStep+17:]
	must.Do(t, s.Maintain(t.Context(), kept[0].At.Time().Add(s.config.AuditRetention)))
	page := must.Get(s.History(t.Context(), store.HistoryQuery{User: 1, Limit: len(log)}))(t)
	if len(page.Changes) != len(kept) {
		t.Fatalf("%d changes are left, want %d", len(page.Changes), len(kept))
	}
}

func TestAPathThatCannotBeOpenedIsNamedInTheError(t *testing.T) {
	t.Parallel()
	config := Defaults()
	config.Path = filepath.Join(t.TempDir(), "missing", "stillhere.db")
	if s, err := Open(t.Context(), config); err == nil {
		_ = s.Close()
		t.Fatal("opened")
	} else {
		t.Log(err)
	}
}
