package sqlitestore

import (
	"path/filepath"
	"testing"
	"time"

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
	s := newStore(t, filepath.Join(t.TempDir(), "stillhere.db"))
	s.config.AuditRetention = storetest.Retained
	storetest.LongHere(t, s, func(now time.Time) {
		s.now = func() time.Time { return now }
		if err := s.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
