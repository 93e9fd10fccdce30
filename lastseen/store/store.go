// Package store is what the rest of the room asks of a durable store, and the
// arithmetic that all stores share. Two stores keep it: pgstore and sqlitestore.
// storetest holds both to it.
package store

import (
	"context"
	"errors"

	"github.com/stillhere/stillhere/schemas"
)

// ErrFenced is returned by Append when the partition's next offset or its topic is
// not the one expected: somebody else has written, or an earlier attempt of one's own
// went through after all. Nothing of the batch was written by this call.
var ErrFenced = errors.New("the partition's next offset has moved")

// ErrRefused marks an error by which the store says that it will never take the
// statement: a fault of the program or of the schema. All other errors of a
// store may go away by themselves.
var ErrRefused = errors.New("the store refuses the statement")

// Batch is what is written in one transaction.
type Batch struct {
	Partition int32
	// Expected is the next offset that the store must hold for the partition now
	// (Unknown: none), Next the one it holds afterwards.
	Expected, Next int64
	// ExpectedTopic is the Topic of the Place that the store must hold now. Topic is
	// the one that Next is an offset of, which the store then holds as well; one that
	// is not known leaves there what is there.
	ExpectedTopic, Topic schemas.TopicID
	// Changes are in the order of the log; of one user in ascending version.
	Changes []*schemas.Transition
}

// Writer is what the sink writes to. Different partitions may be written at the
// same time; one partition from one goroutine.
type Writer interface {
	// Place is how far the partition is as of now.
	Place(ctx context.Context, partition int32) (Place, error)
	// Append writes log, users and place in one transaction, or nothing.
	// A change that is in the log already is left as it is, a user row never goes
	// back to an older version. When it returns nil the effect is durable. When
	// the outcome of the commit was unknown it has looked; where it could not look
	// it returns the error, and a repeated call returns nil or ErrFenced.
	Append(ctx context.Context, batch Batch) error
}

// Reader is what the queries read.
type Reader interface {
	// Users are those of the users of whom something is known. ids has no double.
	Users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error)
	// History is a page of the changes of one user, newest first. What happened
	// while the user hid is never in it, and while the user hides it is empty.
	History(ctx context.Context, query HistoryQuery) (Page, error)
}

// HistoryQuery asks for the changes of a user.
type HistoryQuery struct {
	User schemas.UserID
	// From is included, To is not; 0 leaves that end open.
	From, To schemas.Millis
	// Limit is the greatest length of the page, at least 1.
	Limit int
	// After is where the page before ended; the zero Position for the first page.
	After Position
}

// Position is a place in the history of a user.
type Position struct {
	At      schemas.Millis
	Version schemas.Version
}

// Page is a part of a history.
type Page struct {
	Changes []*schemas.Transition
	// Next is the After of the following page; the zero Position when this page is
	// the last.
	Next Position
}

// PageOf makes the page of a query from up to Limit+1 changes, the one too many
// telling that there is a following page.
func PageOf(query HistoryQuery, changes []*schemas.Transition) Page {
	if len(changes) <= query.Limit {
		return Page{Changes: changes}
	}
	changes = changes[:query.Limit]
	last := changes[len(changes)-1]
	return Page{Changes: changes, Next: Position{At: last.At, Version: last.Version}}
}
