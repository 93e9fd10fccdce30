package pgstore

import (
	"context"
	"strings"

	_ "embed"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/as_of.sql
	asOfSQL     string
	asOfUserSQL = strings.ReplaceAll(asOfSQL, "--one ", "")
)

// lookBack is how far before the instant the log is searched for what was in force.
const lookBack = 2 * day

// AsOf calls each for every user with a change at or before at, with what was in force then.
// Entries have no event, cause, device or policy; From is To. For a user who has been offline from
// then until now, version and times may be those of user_presence: the version that of a later
// change of visibility, the times never those of a hidden period. If the log begins later, the
// error is a *store.ForgottenError.
func (s *Store) AsOf(ctx context.Context, at schemas.Millis, user schemas.UserID, each func(*store.Entry) error) (err error) {
	defer s.Wrap(&err, "reading what was in force at %s", at)
	edges, err := s.Edges(ctx)
	if err != nil {
		return err
	}
	shown, flush, err := edges.AsOf(ctx, s.Names, at, user, each)
	if err != nil {
		return err
	}
	err = s.reading(ctx, func(tx pgx.Tx) error {
		// Until the end of the transaction no day is dropped.
		if _, err := tx.Exec(ctx, `LOCK TABLE ONLY status_changes IN ACCESS SHARE MODE`); err != nil {
			return err
		}
		begins, err := s.Begins(ctx, queries{tx})
		if err != nil {
			return err
		}
		if err := store.CheckKnown(at, begins); err != nil {
			return err
		}
		sql, arguments := asOfSQL, []any{at.Time(), at.Time().Add(-lookBack), begins != 0}
		if user != 0 {
			sql, arguments = asOfUserSQL, append(arguments, int64(user))
		}
		return readEntries(ctx, tx, sql, arguments, shown)
	})
	if err != nil {
		return err
	}
	return flush()
}
