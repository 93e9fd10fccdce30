package pgstore

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/pgtest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/lastseen/store/storetest"
)

func TestACommitThatWentThroughWithoutAnAnswerCountsAsWritten(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.commit = func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	batch := store.Batch{Expected: store.Unknown, Next: 10, Changes: storetest.RandomLog(1, 3, 10)}
	must.Do(t, s.Append(t.Context(), batch))
}

func TestACommitThatWasLostIsAnErrorAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	whole := s.commit
	s.commit = func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(io.ErrUnexpectedEOF, tx.Rollback(ctx))
	}
	batch := store.Batch{Expected: store.Unknown, Next: 10, Changes: storetest.RandomLog(1, 3, 10)}
	err := s.Append(t.Context(), batch)
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRefused) {
		t.Fatalf("error %v", err)
	}
	s.commit = whole
	must.Do(t, s.Append(t.Context(), batch))
}

func TestACommitThatLostARaceWithoutAnAnswerIsFenced(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	whole := s.commit
	s.commit = func(ctx context.Context, tx pgx.Tx) error {
		s.commit = whole
		err := tx.Rollback(ctx)
		other := store.Batch{Expected: store.Unknown, Next: 4, Changes: storetest.RandomLog(1, 3, 4)}
		return errors.Join(io.ErrUnexpectedEOF, err, s.Append(ctx, other))
	}
	batch := store.Batch{Expected: store.Unknown, Next: 10, Changes: storetest.RandomLog(1, 3, 10)}
	if err := s.Append(t.Context(), batch); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("error %v, want %v", err, store.ErrFenced)
	}
}

func TestAStatementThatCanNeverWorkIsDistinguishedFromAServerThatIsAway(t *testing.T) {
	t.Parallel()
	config := newConfig(t)
	must.Do(t, Migrate(t.Context(), config))
	must.Do(t, pgtest.Exec(t.Context(), config.URL, `ALTER TABLE user_presence RENAME COLUMN since TO sinze`))
	s := must.Get(Open(t.Context(), config))(t)
	defer s.Close()
	batch := store.Batch{Expected: store.Unknown, Next: 10, Changes: storetest.RandomLog(1, 3, 10)}
	if err := s.Append(t.Context(), batch); !errors.Is(err, store.ErrRefused) {
		t.Errorf("error %v, want %v", err, store.ErrRefused)
	}

	config.URL = "postgres://nobody@/postgres?host=/nowhere"
	away := must.Get(Open(t.Context(), config))(t)
	defer away.Close()
	if err := away.Append(t.Context(), batch); err == nil || errors.Is(err, store.ErrRefused) {
		t.Errorf("error %v of a server that is away", err)
	}
}

func TestAServerThatIsKilledMidwayKeepsAllOfABatchOrNothing(t *testing.T) {
	t.Parallel()
	if !pgtest.Shared(t).Private() {
		t.Skip("STILLHERE_TEST_POSTGRES names a server that is not ours to kill")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // four starts of a server on a machine that may be busy
	defer cancel()
	own := must.Get(pgtest.Start(ctx))(t)
	defer func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config := Defaults()
	config.ConnectTimeout = 200 * time.Millisecond
	config.URL = must.Get(own.URL(ctx))(t)
	must.Do(t, Migrate(ctx, config))
	s := must.Get(Open(ctx, config))(t)
	defer s.Close()

	const rows = 50
	log := storetest.RandomLog(11, 20, 24*rows)
	expected := store.Unknown
	for start := 0; start < len(log); {
		batch := store.Batch{Expected: expected, Next: int64(start + rows), Changes: log[start : start+rows]}
		var killed chan error
		if start/rows%8 == 3 {
			killed = make(chan error)
			go func() { killed <- errors.Join(own.Kill(), own.Launch(ctx)) }()
		}
		err := s.Append(ctx, batch)
		if killed != nil {
			must.Do(t, <-killed)
		}
		next := nextOffset(ctx, t, s)
		if err == nil && next != batch.Next {
			t.Fatalf("written, but the next offset is %d, not %d", next, batch.Next)
		}
		if next != expected && next != batch.Next {
			t.Fatalf("the next offset is %d after a batch from %d to %d", next, expected, batch.Next)
		}
		if next == batch.Next {
			start += rows
		}
		expected = next
	}
	var written int
	must.Do(t, s.pool.QueryRow(ctx, `SELECT count(DISTINCT event_id) FROM status_changes`).Scan(&written))
	if written != len(log) {
		t.Fatalf("%d changes are written, want %d", written, len(log))
	}
}

// nextOffset asks until the server answers: connections that died in the pool
// are found one by one.
func nextOffset(ctx context.Context, t *testing.T, s *Store) int64 {
	t.Helper()
	for {
		at, err := s.Position(ctx, 0)
		if err == nil {
			return at.Next
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
