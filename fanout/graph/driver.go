package graph

import (
	"context"

	"github.com/stillhere/stillhere/internal/migrate"
	"github.com/stillhere/stillhere/schemas"
)

// Driver is what Postgres and SQLite do differently. Any goroutine may call any method. Both
// databases name arguments $1, $2 and so on.
type Driver interface {
	// IDs appends the ids in the only column of a query's rows to dst.
	IDs(ctx context.Context, dst []schemas.UserID, query string, arguments ...any) ([]schemas.UserID, error)
	// Number returns the number that a query has in its only row, or 0 without a row.
	Number(ctx context.Context, query string, arguments ...any) (int64, error)
	// Heads is Store.Heads.
	Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error)
	// Page is the query of Store.Page.
	Page() string
	// In returns the condition that an id is one of ids, and its argument $1.
	In(ids []schemas.UserID) (condition string, argument any)
	// Names is Store.Names.
	Names(ctx context.Context, users []schemas.UserID) (Names, error)
	// Touch returns the end of a SET clause that notes the time of a load; empty where none is stored.
	Touch() string
	// StoredRanges returns the ranges of user that were used within RangesKept, and marks them as
	// used. nil: there are none.
	StoredRanges(ctx context.Context, user schemas.UserID) ([]schemas.UserID, error)
	StoreRanges(ctx context.Context, user schemas.UserID, ends []schemas.UserID) error
	// Transact commits what f did, or rolls it back if f fails.
	Transact(ctx context.Context, f func(Tx) error) error

	// Scrub removes soon what was deleted from where copies of it are left, as far as a client can.
	Scrub()
	// Optimize makes reading fast again after many edges were loaded.
	Optimize(ctx context.Context) error
	// Watch calls changed for every user whose followers changed or may have changed; 0 stands for
	// all users. It ends with ctx or when the watch breaks. The first call, changed(0), says that
	// the watch has begun. Of changes by other programs' SQL, deletions are reported, inserts not.
	Watch(ctx context.Context, changed func(schemas.UserID)) error
	// Ping returns an error if the database does not answer.
	Ping(ctx context.Context) error
	// Schema compares the tables with what this program needs.
	Schema(ctx context.Context) (migrate.State, error)
	Close()
}

// Tx is a transaction. Its methods return how many rows they changed.
type Tx interface {
	Exec(ctx context.Context, query string, arguments ...any) (int64, error)
	Insert(ctx context.Context, edges []Edge) (int64, error)
	Delete(ctx context.Context, edges []Edge) (int64, error)
	// Name stores names of users who have none. It waits for other transactions that name them.
	Name(ctx context.Context, names Names) (int64, error)
	// Announce reports to Watch that the followers of users have changed. Delete announces by itself.
	Announce(ctx context.Context, users []schemas.UserID) error
}
