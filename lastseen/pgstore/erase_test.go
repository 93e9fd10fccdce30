package pgstore

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func TestAnImportBesideAnErasureDoesNotBringTheUserBack(t *testing.T) {
	s := newStore(t)
	now := schemas.MillisOf(time.Now())
	tx, err := s.pool.Begin(t.Context()) // Import, whose transaction has 20,000 rows
	must.Do(t, err)
	must.Get(s.importRows(t.Context(), tx, []store.LastSeen{{User: 1, At: now - 9000}}))(t)
	done := make(chan error, 1)
	go func() {
		done <- s.Append(t.Context(), store.Batch{Expected: store.Unknown, Next: 1, Changes: []*schemas.Transition{{User: 1, From: schemas.Offline, To: schemas.Offline, At: now,
			Cause: schemas.Erased, Visibility: schemas.Everyone, Version: 6, Policy: "p", ErasedUntil: now + 1e9}}})
	}()
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
	for n := 0; n == 0; {
		must.Do(t, s.pool.QueryRow(t.Context(), waiting).Scan(&n))
	}
	must.Do(t, tx.Commit(t.Context()))
	must.Do(t, <-done)
	users := must.Get(s.Users(t.Context(), []schemas.UserID{1}))(t)
	if c, known := users[1]; known {
		t.Errorf("the erased user is back: %+v", c)
	}
}
