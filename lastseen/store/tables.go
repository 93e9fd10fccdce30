package store

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

var (
	//go:embed tenant_names.sql
	tenantNamesSQL string
	//go:embed tenant_users.sql
	tenantUsersSQL string
	//go:embed tenant_changes.sql
	tenantChangesSQL string
	//go:embed move_tenant_edge.sql
	moveTenantEdgeSQL string
)

// Queryer is a database or a transaction in it. Arguments are named $1, $2 and so on.
type Queryer interface {
	// Each calls read for each row of a query; read's error ends it and is returned unchanged.
	Each(ctx context.Context, read func(Row) error, query string, arguments ...any) error
}

// Dialect is what Postgres and SQLite do differently where Tables reads and writes them.
type Dialect struct {
	// Statements; see sql/ of each store.
	Users, History, LastShow, Missed string
	// In is the condition that a number is in the List that is $1, Values its rows with the column value.
	In, Values string
	// Millis are the milliseconds of the instant %s.
	Millis string
	// Touch is the end of a SET clause that notes the time of a batch; empty where none is stored.
	Touch string
	// List is an argument of numbers, Asked those of users and the versions after which changes are missed.
	List  func([]int64) any
	Asked func(users, after []int64) []any
	// Instant is an argument; 0 and MaxInt64 are the ends of time.
	Instant func(schemas.Millis) any
	// Classify marks errors that will not pass as ErrRefused.
	Classify func(error) error
}

// Tables is the part of a store that is the same in Postgres and SQLite. Any goroutine may use it.
type Tables struct {
	read, write Queryer
	sql         Dialect
	edges       EdgeCache
}

// NewTables makes a Tables that reads from one pool of connections and writes to another, or the same.
func NewTables(read, write Queryer, sql Dialect) *Tables {
	return &Tables{read: read, write: write, sql: sql}
}

// Wrap adds to an error what was attempted, and classifies it.
func (t *Tables) Wrap(err *error, format string, arguments ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, arguments...), t.sql.Classify(*err))
	}
}

// millis are the milliseconds of a column.
func (t *Tables) millis(column string) string { return fmt.Sprintf(t.sql.Millis, column) }

// Position is how far the partition is; see Writer.
func (t *Tables) Position(ctx context.Context, partition int32) (at Position, err error) {
	defer t.Wrap(&err, "reading how far partition %d is", partition)
	at.Next = Unknown
	err = t.read.Each(ctx, func(row Row) (err error) {
		at, err = scanPosition(row)
		return err
	}, `SELECT next_offset, topic_id, latest_ms, log_epoch FROM sink_offsets WHERE partition = $1`, partition)
	return at, err
}

// MoveOffset is the fence: it moves the next offset of the batch's partition, in the batch's transaction.
func (t *Tables) MoveOffset(ctx context.Context, tx Queryer, batch Batch) error {
	query := `UPDATE sink_offsets SET next_offset = $2, topic_id = $3, latest_ms = $4, log_epoch = $5` + t.sql.Touch + `
		WHERE partition = $1 AND next_offset = $6 AND topic_id IS NOT DISTINCT FROM $7 RETURNING partition`
	arguments := []any{batch.Partition, batch.Next, topicOrNull(batch.Topic), int64(batch.Latest), batch.LogEpoch,
		batch.Expected, topicOrNull(batch.ExpectedTopic)}
	if batch.Expected == Unknown {
		query, arguments = `INSERT INTO sink_offsets (partition, next_offset, topic_id, latest_ms, log_epoch)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING partition`, arguments[:5]
	}
	moved := false
	err := tx.Each(ctx, func(Row) error { moved = true; return nil }, query, arguments...)
	if err == nil && !moved {
		err = ErrFenced
	}
	return err
}

// Users reads users by id; see Reader.
func (t *Tables) Users(ctx context.Context, ids []schemas.UserID,
) (found map[schemas.UserID]schemas.Current, err error) {
	defer t.Wrap(&err, "reading %d users", len(ids))
	found = make(map[schemas.UserID]schemas.Current, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	return found, t.read.Each(ctx, func(row Row) error {
		c, err := scanCurrent(row)
		found[c.User] = c
		return err
	}, t.sql.Users, t.sql.List(Numbers(ids)))
}

// History reads a page of changes; see Reader.
func (t *Tables) History(ctx context.Context, query HistoryQuery) (page Page, err error) {
	defer t.Wrap(&err, "reading the history of user %d", query.User)
	edges, err := t.Edges(ctx)
	if err != nil {
		return page, err
	}
	query, some, err := edges.History(ctx, t.Names, query)
	if err != nil || !some {
		return page, err
	}
	from, to, after := query.Bounds()
	var changes []*schemas.Transition
	instant := t.sql.Instant
	err = t.read.Each(ctx, func(row Row) error {
		change, err := scanChange(query.User, row)
		changes = append(changes, change)
		return err
	}, t.sql.History, int64(query.User), instant(from), instant(to), instant(after.At), int64(after.Version),
		query.Limit+1)
	if err != nil {
		return page, err
	}
	return PageOf(query, changes, func(after, through schemas.Millis) (at schemas.Millis, err error) {
		err = t.read.Each(ctx, func(row Row) error { return row.Scan((*int64)(&at)) },
			t.sql.LastShow, int64(query.User), instant(after), instant(through))
		return at, err
	})
}

// Missed reads changes after versions; see Reader.
func (t *Tables) Missed(ctx context.Context, query MissedQuery) (missed Missed, err error) {
	defer t.Wrap(&err, "reading what was missed of %d users", len(query.Users))
	edges, err := t.Edges(ctx)
	if err != nil {
		return missed, err
	}
	var shown []schemas.Millis
	asked := t.sql.Asked(Numbers(query.Users), Numbers(query.After))
	err = t.read.Each(ctx, func(row Row) error {
		change, last, err := scanMissed(row)
		missed.Changes, shown = append(missed.Changes, change), append(shown, last)
		return err
	}, t.sql.Missed, append(asked, t.sql.Instant(query.From), query.Limit)...)
	if err != nil {
		return missed, err
	}
	RedactMissed(missed.Changes, shown)
	if missed.Begins, err = t.Begins(ctx, t.read); err != nil {
		return missed, err
	}
	return edges.Missed(ctx, t.Names, query, missed)
}

// LogBegins is the instant from which the log of changes is kept; 0 if nothing was ever dropped.
func (t *Tables) LogBegins(ctx context.Context) (begins schemas.Millis, err error) {
	defer t.Wrap(&err, "reading where the log of changes begins")
	return t.Begins(ctx, t.read)
}

// Begins is LogBegins in a transaction.
func (t *Tables) Begins(ctx context.Context, tx Queryer) (begins schemas.Millis, err error) {
	err = tx.Each(ctx, func(row Row) error { return row.Scan((*int64)(&begins)) },
		`SELECT coalesce(`+t.millis("max(dropped_before)")+`, 0) FROM log_edge`)
	return begins, err
}

// Names reads what users are called; see Reader.
func (t *Tables) Names(ctx context.Context, ids []schemas.UserID,
) (found map[schemas.UserID]schemas.UserName, err error) {
	defer t.Wrap(&err, "reading the names of %d users", len(ids))
	found = make(map[schemas.UserID]schemas.UserName, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	return found, t.read.Each(ctx, func(row Row) error {
		n, err := scanName(row)
		found[n.User] = n
		return err
	}, `SELECT user_id, tenant, name FROM names WHERE user_id `+t.sql.In, t.sql.List(Numbers(ids)))
}

// NamesOfTenant lists the users of a tenant; see Tenants.
func (t *Tables) NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int,
) (names []schemas.UserName, err error) {
	defer t.Wrap(&err, "listing the users of tenant %q", tenant)
	err = t.read.Each(ctx, func(row Row) error {
		n, err := scanName(row)
		names = append(names, n)
		return err
	}, `SELECT user_id, tenant, name FROM names WHERE tenant = $1 AND user_id > $2 ORDER BY user_id LIMIT $3`,
		tenant, int64(after), limit)
	return names, err
}

// TenantSizes counts the users of each tenant; see Tenants.
func (t *Tables) TenantSizes(ctx context.Context, changes bool) (sizes []TenantSize, err error) {
	defer t.Wrap(&err, "counting the users of tenants")
	query := tenantUsersSQL
	if changes {
		query = tenantChangesSQL
	}
	err = t.read.Each(ctx, func(row Row) error {
		var size TenantSize
		err := row.Scan(&size.Tenant, &size.Users, &size.Online, &size.Away, &size.Changes)
		sizes = append(sizes, size)
		return err
	}, query)
	return sizes, err
}

// TenantNames lists tenants; see TenantLog.
func (t *Tables) TenantNames(ctx context.Context) (names []string, err error) {
	defer t.Wrap(&err, "listing the tenants")
	err = t.read.Each(ctx, func(row Row) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, tenantNamesSQL)
	return names, err
}

// TenantEdges are where the log begins for tenants; see TenantLog.
func (t *Tables) TenantEdges(ctx context.Context) (edges Edges, err error) {
	defer t.Wrap(&err, "asking where the logs of tenants begin")
	return t.Edges(ctx)
}

// Edges is TenantEdges as a part of something else.
func (t *Tables) Edges(ctx context.Context) (Edges, error) {
	return t.edges.Get(ctx, func(ctx context.Context) (Edges, error) {
		edges := Edges{}
		return edges, t.read.Each(ctx, func(row Row) error {
			var tenant string
			var before int64
			err := row.Scan(&tenant, &before)
			edges[tenant] = schemas.Millis(before)
			return err
		}, `SELECT tenant, `+t.millis("dropped_before")+` FROM tenant_edges`)
	})
}

// MoveEdge moves the edge of a tenant; see TenantLog.
func (t *Tables) MoveEdge(ctx context.Context, tenant string, before schemas.Millis) (cleaned bool, err error) {
	defer t.Wrap(&err, "moving where the log of tenant %q begins", tenant)
	err = t.write.Each(ctx, func(row Row) error { return row.Scan(&cleaned) },
		moveTenantEdgeSQL, tenant, t.sql.Instant(before))
	t.edges.Forget()
	return cleaned, err
}

// Cleaned notes that a tenant's log was cleaned; see TenantLog.
func (t *Tables) Cleaned(ctx context.Context, tenant string, before schemas.Millis) (err error) {
	defer t.Wrap(&err, "noting that the log of tenant %q is clean", tenant)
	return t.write.Each(ctx, func(Row) error { return nil },
		`UPDATE tenant_edges SET cleaned_before = $2 WHERE tenant = $1 RETURNING tenant`, tenant, t.sql.Instant(before))
}

// Erased are the erased users, with the versions up to which changes count for nothing.
func (t *Tables) Erased(ctx context.Context) (users map[schemas.UserID]schemas.Version, err error) {
	defer t.Wrap(&err, "reading which users were erased")
	return erased(ctx, t.read, ``)
}

// ErasedOf is Erased of some users, in a transaction.
func (t *Tables) ErasedOf(ctx context.Context, tx Queryer, ids []schemas.UserID,
) (map[schemas.UserID]schemas.Version, error) {
	return erased(ctx, tx, `WHERE user_id `+t.sql.In, t.sql.List(Numbers(ids)))
}

// SplitErased returns the changes of a batch that no erasure has made void, and the erasures in it, in the batch's
// transaction.
func (t *Tables) SplitErased(ctx context.Context, tx Queryer, batch Batch) ([]*schemas.Transition, []Erasure, error) {
	if len(batch.Changes) == 0 {
		return nil, nil, nil
	}
	known, err := erased(ctx, tx, `WHERE partition = $1 AND version >= $2`, batch.Partition, int64(oldest(batch.Changes)))
	if err != nil {
		return nil, nil, err
	}
	counts, erasures := splitErased(batch.Changes, known)
	return counts, erasures, nil
}

func erased(ctx context.Context, from Queryer, where string, arguments ...any,
) (map[schemas.UserID]schemas.Version, error) {
	users := map[schemas.UserID]schemas.Version{}
	return users, from.Each(ctx, func(row Row) error {
		var user, version int64
		err := row.Scan(&user, &version)
		users[schemas.UserID(user)] = schemas.Version(version)
		return err
	}, `SELECT user_id, version FROM erased_users `+where, arguments...)
}

// ErasureOf is the erasure of a user that is not forgotten yet; the zero Erasure if there is none.
func (t *Tables) ErasureOf(ctx context.Context, user schemas.UserID) (e Erasure, err error) {
	defer t.Wrap(&err, "reading the erasure of user %d", user)
	err = t.read.Each(ctx, func(row Row) error {
		return row.Scan((*int64)(&e.User), (*int64)(&e.Version), (*int64)(&e.Until))
	}, `SELECT user_id, version, `+t.millis("until")+` FROM erased_users WHERE user_id = $1`, int64(user))
	return e, err
}

// Numbers are user ids or versions as SQL has them.
func Numbers[N ~int64](values []N) []int64 {
	numbers := make([]int64, len(values))
	for i, value := range values {
		numbers[i] = int64(value)
	}
	return numbers
}
