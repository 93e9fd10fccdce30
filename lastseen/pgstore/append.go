package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/lastseen/store"
)

var (
	//go:embed sql/upsert_users.sql
	upsertUsersSQL string
	//go:embed sql/append_carefully.sql
	appendCarefullySQL string
)

var errDuplicateRows = errors.New("the log holds part of the batch already")

// checkTimeout bounds the check after a commit of unknown outcome; the caller's own time may be
// over.
const checkTimeout = 5 * time.Second

// Append writes the batch; see store.Writer.
//
// COPY writes the log, and cannot skip rows that are there already. There are none as long as the
// offset is stored with the rows. If there are, because offsets were reset or the topic is written
// again, the transaction starts over with a slower statement that skips them, and so do the
// following ones until a batch is all new.
func (s *Store) Append(ctx context.Context, batch store.Batch) (err error) {
	defer s.Wrap(&err, "writing offsets %d to %d of partition %d", batch.Expected, batch.Next, batch.Partition)
	edges, err := s.Edges(ctx)
	if err != nil {
		return err
	}
	err = s.appendBy(ctx, batch, edges, s.careful.Load())
	if errors.Is(err, errDuplicateRows) {
		s.careful.Store(true)
		err = s.appendBy(ctx, batch, edges, true)
	}
	return err
}

func (s *Store) appendBy(ctx context.Context, batch store.Batch, edges store.Edges, carefully bool) error {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return err
	}
	// After a commit this does nothing; the connection is not reused when it fails.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()

	crashpoint.At("sink.begun")
	// The fence comes first, so that the second of two owners waits here for the first's transaction.
	if err := s.MoveOffset(ctx, queries{tx}, batch); err != nil {
		return err
	}
	crashpoint.At("sink.fenced")
	var erasures []store.Erasure
	if len(batch.Changes) > 0 {
		if batch.Changes, erasures, err = s.SplitErased(ctx, queries{tx}, batch); err != nil {
			return err
		}
		if err := erase(ctx, tx, batch.Partition, erasures); err != nil {
			return err
		}
	}
	if len(batch.Changes) > 0 {
		// Ordered by user, as the indexes of both tables are: each page of them is then visited once
		// per batch, which saves a quarter of the server's time.
		batch.Changes = store.ByUser(batch.Changes)
		write := s.copyChanges
		if carefully {
			write = s.insertChanges
		}
		logged := batch
		logged.Changes = edges.Logged(batch.Changes)
		if err := s.timed("log", func() error { return write(ctx, tx, logged) }); err != nil {
			return err
		}
		crashpoint.At("sink.copied")
		updates := store.FoldByUser(batch.Changes)
		if err := s.timed("users", func() error { return upsertUsers(ctx, tx, updates) }); err != nil {
			return err
		}
		if err := s.WriteDenies(ctx, queries{tx}, batch.Changes); err != nil {
			return err
		}
		if err := writeNames(ctx, tx, store.NamesOf(batch.Changes)); err != nil {
			return err
		}
	}
	crashpoint.At("sink.upserted")
	err = s.timed("commit", func() error { return s.commit(ctx, tx) })
	crashpoint.At("sink.committed")
	if err != nil && outcomeUnknown(err) {
		return s.checkCommitted(ctx, batch, err)
	}
	return err
}

// timed measures a step of the transaction.
func (s *Store) timed(step string, act func() error) error {
	started := time.Now()
	err := act()
	s.steps.WithLabelValues(step).Observe(time.Since(started).Seconds())
	return err
}

func (s *Store) copyChanges(ctx context.Context, tx pgx.Tx, batch store.Batch) error {
	buffer := s.buffers.Get().(*[]byte)
	*buffer = appendCopy((*buffer)[:0], batch.Changes)
	_, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(*buffer), copyChangesSQL)
	if sqlState(err) == uniqueViolation {
		return errDuplicateRows
	}
	// When the connection is lost, CopyFrom returns before its goroutine has stopped reading the
	// buffer: only the buffer of a COPY that succeeded may be used again.
	if err == nil {
		s.buffers.Put(buffer)
	}
	return err
}

func upsertUsers(ctx context.Context, tx pgx.Tx, updates []store.Update) error {
	_, err := execArrays(ctx, tx, upsertUsersSQL, arrays(userColumns, updates))
	return err
}

// execArrays does not prepare its statement: that would save a fraction of a millisecond per batch,
// and would not work through every pooler.
func execArrays(ctx context.Context, tx pgx.Tx, sql string, arrays [][]byte) (pgconn.CommandTag, error) {
	result := tx.Conn().PgConn().ExecParams(ctx, sql, arrays, nil, []int16{pgx.BinaryFormatCode}, nil).Read()
	return result.CommandTag, result.Err
}

func (s *Store) insertChanges(ctx context.Context, tx pgx.Tx, batch store.Batch) error {
	done, err := execArrays(ctx, tx, appendCarefullySQL, arrays(logColumns, batch.Changes))
	if err != nil {
		return err
	}
	s.careful.Store(done.RowsAffected() < int64(len(batch.Changes)))
	return nil
}

// checkCommitted decides whether a commit that the server did not answer was applied. If the
// server is still busy with it, the old offset is read, the caller tries again and waits at the
// fence.
func (s *Store) checkCommitted(ctx context.Context, batch store.Batch, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	at, err := s.Position(ctx, batch.Partition)
	switch {
	case err != nil:
		return fmt.Errorf("outcome of the commit unknown: %w", errors.Join(cause, err))
	case at.Next == batch.Expected && at.Topic == batch.ExpectedTopic:
		// A batch that moves nothing may have gone through all the same; it can be given again.
		return fmt.Errorf("the commit did not go through: %w", cause)
	case at.Next == batch.Next && !at.Topic.Differs(batch.Topic):
		return nil
	default:
		return store.ErrFenced
	}
}
