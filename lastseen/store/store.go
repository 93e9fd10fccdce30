// Package store is the interface of a durable store, and the arithmetic that all stores share.
// pgstore and sqlitestore implement it; storetest is the contract.
package store

import (
	"context"
	"errors"
	"math"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
)

// ErrFenced is returned by Append if the partition's offset or topic is not the expected one:
// another owner has written, or an earlier attempt of this one was committed after all. This call
// wrote nothing.
var ErrFenced = errors.New("the partition's next offset has moved")

// ErrRefused marks errors of statements that the store will never accept: a fault of the program
// or the schema. Other errors may pass.
var ErrRefused = errors.New("the store refuses the statement")

// Batch is what is written in one transaction.
type Batch struct {
	Partition int32
	// Expected is the next offset that the store must have now (Unknown: none), Next the one that
	// it has afterwards.
	Expected, Next int64
	// ExpectedTopic is the topic of the Position that the store must have now. Topic is the topic
	// of Next, stored with it.
	ExpectedTopic, Topic schemas.TopicID
	// Latest and LogEpoch are those of the Position afterwards.
	Latest   schemas.Millis
	LogEpoch int64
	// Changes are in the order of the log; of one user in ascending version.
	Changes []*schemas.Transition
}

// Writer is the sink's side of a store. Different partitions may be written concurrently, one
// partition by one goroutine.
type Writer interface {
	Position(ctx context.Context, partition int32) (Position, error)
	// Append writes log, users and position in one transaction, or nothing. A change that is in
	// the log already stays as it is; a user row never goes back to an older version. When it
	// returns nil the effect is durable. If the outcome of the commit was unknown, Append has read
	// the position; if it could not, it returns the error, and a repeated call returns nil or
	// ErrFenced.
	// Names that changes carry are stored with them (see Namer), and so is whom they deny, with the version of the change:
	// of changes of a user and a viewer the newest counts.
	Append(ctx context.Context, batch Batch) error
}

// Namer stores names beside those of the changes.
type Namer interface {
	// WriteNames stores records of the names topic, in the order of the topic. A record without a
	// name is a tombstone. Until the user is erased, a second name changes nothing. After an
	// error the same records may come again.
	WriteNames(ctx context.Context, records []schemas.UserName) error
}

// Tenants are the users by tenant, in text mode.
type Tenants interface {
	// NamesOfTenant returns the users of a tenant with ids greater than after, ascending, at most limit.
	NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int) ([]schemas.UserName, error)
	// TenantSizes returns what is held of each tenant, ordered by tenant. It reads all users, and with
	// changes all of the log to count them.
	TenantSizes(ctx context.Context, changes bool) ([]TenantSize, error)
}

// TenantSize is what a store holds of a tenant.
type TenantSize struct {
	Tenant string
	// Users are those whose names are known, of whom the visible ones who are present are online or away.
	Users, Online, Away int64
	// Changes are those of users whose names are known.
	Changes int64
}

// LastSeen is when a user was last seen, by the records of another system.
type LastSeen struct {
	User schemas.UserID
	At   schemas.Millis
	// Name is the user's name in text mode.
	Name schemas.Name
}

// NamesOfSeen are the names of users, which are ascending, each once. In int mode there are none.
func NamesOfSeen(users []LastSeen) (names []schemas.UserName) {
	for _, u := range users {
		if u.Name.Text != "" {
			names = append(names, schemas.UserName{User: u.User, Name: u.Name})
		}
	}
	return names
}

// Reader is the queries' side of a store.
type Reader interface {
	// Users returns the known users among ids, which has no duplicates.
	Users(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.Current, error)
	// History is a page of a user's changes, newest first. It never contains what happened while
	// the user hid; of a hidden user it is empty.
	History(ctx context.Context, query HistoryQuery) (Page, error)
	// Missed is the changes of users after a version of each. What it has of a user is without gaps:
	// changes are missing only at the end, beyond what was written, or beyond the limit.
	Missed(ctx context.Context, query MissedQuery) (Missed, error)
	// Names returns what is known of the names of ids, which has no duplicates. In int mode there is
	// nothing.
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
	// DeniedBy returns the viewers greater than after whom a user denies, ascending, at most limit. As of audience the list
	// is complete: it is Override.Audience of the user's row in the same snapshot, and 0 if there is none, or if changes
	// of the list are missing.
	DeniedBy(ctx context.Context, user, after schemas.UserID, limit int) (list []schemas.Denial, audience schemas.Version, err error)
	// Denying returns whether users deny a viewer, for each who has ever denied anybody, all in one snapshot. Version is
	// audience of DeniedBy.
	Denying(ctx context.Context, viewer schemas.UserID, users []schemas.UserID) (map[schemas.UserID]shown.Denying, error)
}

// HistoryQuery asks for the changes of a user.
type HistoryQuery struct {
	User schemas.UserID
	// From is included, To is not; 0 leaves that end open.
	From, To schemas.Millis
	// Limit is the greatest length of the page, at least 1.
	Limit int
	// After is the end of the previous page; the zero Cursor for the first page.
	After Cursor
}

type Cursor struct {
	At      schemas.Millis
	Version schemas.Version
}

// Page is a part of a history.
type Page struct {
	Changes []*schemas.Transition
	// Next is the After of the next page; the zero Cursor if there is none.
	Next Cursor
}

// Bounds are the query's with MaxInt64 for open ends.
func (q HistoryQuery) Bounds() (from, to schemas.Millis, after Cursor) {
	from, to, after = q.From, q.To, q.After
	if to == 0 {
		to = math.MaxInt64
	}
	if after == (Cursor{}) {
		return from, to, Cursor{At: math.MaxInt64, Version: math.MaxInt64}
	}
	return from, min(to, after.At+1), after
}

// PageOf makes the page of a query from up to Limit+1 changes, which may be redacted; the additional
// one shows that there is a next page. shown is that of RedactHidden.
func PageOf(query HistoryQuery, changes []*schemas.Transition, shown func(after, through schemas.Millis) (schemas.Millis, error)) (Page, error) {
	if err := RedactHidden(changes, shown); err != nil {
		return Page{}, err
	}
	if len(changes) <= query.Limit {
		return Page{Changes: changes}, nil
	}
	changes = changes[:query.Limit]
	last := changes[len(changes)-1]
	return Page{Changes: changes, Next: Cursor{At: last.At, Version: last.Version}}, nil
}
