package pgstore

import (
	"context"
	"math"

	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/users.sql
	usersSQL string
	//go:embed sql/history.sql
	historySQL string
	//go:embed sql/last_show.sql
	lastShowSQL string
	//go:embed sql/missed.sql
	missedSQL string
)

// dialect is what Postgres does differently from SQLite.
var dialect = store.Dialect{
	Users: usersSQL, History: historySQL, LastShow: lastShowSQL, Missed: missedSQL,
	In: `= ANY ($1)`, Values: `unnest($1::bigint[]) AS list (value)`, Millis: `(extract(epoch FROM %s) * 1000)::bigint`, Touch: `, written_at = now()`,
	List:    func(numbers []int64) any { return numbers },
	Asked:   func(users, after []int64) []any { return []any{users, after} },
	Instant: instant, Classify: classify,
}

// queries is a pool, a connection or a transaction as a store.Queryer.
type queries struct {
	pgx interface {
		Query(ctx context.Context, query string, arguments ...any) (pgx.Rows, error)
	}
}

func (q queries) Each(ctx context.Context, read func(store.Row) error, query string, arguments ...any) error {
	rows, err := q.pgx.Query(ctx, query, arguments...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// instant is a parameter; 0 and MaxInt64 are the ends of time.
func instant(m schemas.Millis) any {
	switch m {
	case 0:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	case math.MaxInt64:
		return pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.Infinity}
	}
	return pgtype.Timestamptz{Valid: true, Time: m.Time()}
}
