// Package pggraph stores in Postgres who follows whom.
package pggraph

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/internal/postgres"
	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed sql/page.sql
	pageSQL string
	//go:embed sql/heads.sql
	headsSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/delete.sql
	deleteSQL string
)

// driver is a graph.Driver.
type driver struct {
	config Config
	pool   *pgxpool.Pool
}

// Open makes a store. It connects when first used. Migrate must have been run.
func Open(ctx context.Context, config Config) (*graph.Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	settings, err := config.Pool(application)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("opening the Postgres pool: %w", err)
	}
	return &graph.Store{Driver: &driver{config, pool}}, nil
}

func (g *driver) Close() { g.pool.Close() }

func (g *driver) Ping(ctx context.Context) error {
	if err := g.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reaching Postgres: %w", err)
	}
	return nil
}

func (g *driver) Schema(ctx context.Context) (migrate.State, error) {
	return postgres.Schema(ctx, g.pool, schema)
}

func (g *driver) Page() string { return pageSQL }

func (g *driver) In(ids []schemas.UserID) (condition string, argument any) {
	return "= ANY ($1)", bigints(ids)
}

func (g *driver) Touch() string { return ", changed_at = now()" }

// IDs reads a column of bigint, or of bytea in which each id has 8 bytes.
func (g *driver) IDs(ctx context.Context, dst []schemas.UserID, query string, arguments ...any) ([]schemas.UserID, error) {
	rows, err := g.pool.Query(ctx, query, arguments...)
	if err != nil {
		return dst, err
	}
	defer rows.Close()
	for rows.Next() {
		var bytes pgtype.DriverBytes
		var id int64
		// Of a query that failed there are no descriptions.
		if rows.FieldDescriptions()[0].DataTypeOID == pgtype.ByteaOID {
			err = rows.Scan(&bytes)
			dst = appendIDs(dst, bytes)
		} else {
			err = rows.Scan(&id)
			dst = append(dst, schemas.UserID(id))
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, rows.Err()
}

func (g *driver) Number(ctx context.Context, query string, arguments ...any) (n int64, err error) {
	if err = g.pool.QueryRow(ctx, query, arguments...).Scan(&n); errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

func (g *driver) Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error) {
	rows, err := g.pool.Query(ctx, headsSQL, bigints(users), most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]schemas.UserID, error) {
		var bytes pgtype.DriverBytes
		err := row.Scan(&bytes)
		return appendIDs(nil, bytes), err
	})
}

func (g *driver) Names(ctx context.Context, users []schemas.UserID) (graph.Names, error) {
	rows, err := g.pool.Query(ctx, `SELECT user_id, tenant, name FROM follow_names WHERE user_id = ANY ($1)`, bigints(users))
	if err != nil {
		return nil, err
	}
	names := make(graph.Names, len(users))
	var user int64
	var name schemas.Name
	_, err = pgx.ForEachRow(rows, []any{&user, &name.Tenant, &name.Text}, func() error {
		names[schemas.UserID(user)] = name
		return nil
	})
	return names, err
}

// bigints are the ids in a type that the driver can encode without asking the server, as it must
// behind PgBouncer.
func bigints(ids []schemas.UserID) []int64 {
	list := make([]int64, len(ids))
	for i, id := range ids {
		list[i] = int64(id)
	}
	return list
}

// appendIDs reads what int8send wrote.
func appendIDs(dst []schemas.UserID, bytes []byte) []schemas.UserID {
	dst = slices.Grow(dst, len(bytes)/8)
	for ; len(bytes) >= 8; bytes = bytes[8:] {
		dst = append(dst, schemas.UserID(binary.BigEndian.Uint64(bytes)))
	}
	return dst
}

func (g *driver) StoredRanges(ctx context.Context, user schemas.UserID) (ends []schemas.UserID, err error) {
	const use = `UPDATE follow_ranges SET used_at = now() WHERE user_id = $1 AND used_at > now() - $2::interval RETURNING ends`
	err = g.pool.QueryRow(ctx, use, int64(user), graph.RangesKept.String()).Scan(&ends)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return ends, err
}

func (g *driver) StoreRanges(ctx context.Context, user schemas.UserID, ends []schemas.UserID) error {
	_, err := g.pool.Exec(ctx, `INSERT INTO follow_ranges (user_id, ends, used_at) VALUES ($1, $2, now())
		ON CONFLICT (user_id) DO UPDATE SET ends = excluded.ends, used_at = excluded.used_at`, int64(user), bigints(ends))
	return err
}

// Scrub leaves it to Postgres, whose autovacuum removes what was deleted.
func (g *driver) Scrub() {}

// Optimize lets reads use the index alone. They can do so once VACUUM has marked the pages.
func (g *driver) Optimize(ctx context.Context) error {
	err := g.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, `SET statement_timeout = 0`); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, `VACUUM (ANALYZE) follows`)
		_, reset := conn.Exec(ctx, `RESET statement_timeout`)
		if err = errors.Join(err, reset); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx)) // the pool drops it: nobody gets the timeout of 0
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("vacuuming follows: %w", err)
	}
	return nil
}

func (g *driver) Watch(ctx context.Context, changed func(schemas.UserID)) error {
	conn, err := g.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	// The connection listens, so nobody else may have it.
	own := conn.Hijack()
	defer func() { _ = own.Close(context.WithoutCancel(ctx)) }()
	if _, err := own.Exec(ctx, `LISTEN stillhere_follows`); err != nil {
		return fmt.Errorf("watching follows: %w", err)
	}
	changed(0)
	for {
		note, err := own.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("watching follows: %w", err)
		}
		user, _ := strconv.ParseInt(note.Payload, 10, 64) // an unreadable payload stands for all users
		changed(schemas.UserID(user))
	}
}
