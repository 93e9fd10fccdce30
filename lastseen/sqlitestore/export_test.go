package sqlitestore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay/replaytest"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestSQLiteGivesDataTeamsWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	storetest.RunArchive(t, func(t *testing.T) storetest.Archive {
		return newStore(t, filepath.Join(t.TempDir(), "stillhere.db"))
	})
}

func TestSQLiteTellsOfUsersWhoHaveBeenHereLongerThanTheLogIsKept(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	storetest.LongHere(t, s, s.forget)
}

func TestSQLiteInventsNobodyWhereItsLogWasCutAndSaysTheSameOfOneAsOfAll(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	storetest.Past(t, s, s.forget)
}

func TestSQLiteGivesTheSessionsOfAllChangesWhereverItsLogWasCut(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	replaytest.Sessions(t, s, s.forget)
}

// forgetting is a store whose log can be cut at will.
type forgetting struct {
	*Store
	t *testing.T
}

func forgetful(t *testing.T) forgetting {
	t.Helper()
	s := newStore(t, filepath.Join(t.TempDir(), "stillhere.db"))
	s.config.AuditRetention = storetest.Retained
	return forgetting{s, t}
}

// forget drops what is older than the retention at an instant.
func (f forgetting) forget(now time.Time) {
	f.t.Helper()
	f.now = func() time.Time { return now }
	if err := f.Maintain(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}
