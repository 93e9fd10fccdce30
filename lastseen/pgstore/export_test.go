package pgstore

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestPostgresGivesDataTeamsWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	storetest.RunArchive(t, func(t *testing.T) storetest.Archive { return newStore(t) })
}

func TestPostgresTellsOfUsersWhoHaveBeenHereLongerThanTheLogIsKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.config.AuditRetention = storetest.Retained
	storetest.LongHere(t, s, func(now time.Time) {
		s.now = func() time.Time { return now }
		if err := s.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
