package pgstore

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay/replaytest"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestPostgresGivesDataTeamsWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	storetest.RunArchive(t, func(t *testing.T) storetest.Archive { return newStore(t) })
}

func TestPostgresTellsOfUsersWhoHaveBeenHereLongerThanTheLogIsKept(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	storetest.LongHere(t, s, s.forget)
}

func TestPostgresInventsNobodyWhereItsLogWasCutAndSaysTheSameOfOneAsOfAll(t *testing.T) {
	t.Parallel()
	s := forgetful(t)
	storetest.Past(t, s, s.forget)
}

func TestPostgresGivesTheSessionsOfAllChangesWhereverItsLogWasCut(t *testing.T) {
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
	s := newStore(t)
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
