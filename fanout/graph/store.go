package graph

import (
	"context"
	"errors"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Edge says that Follower wants to know when User comes and goes.
type Edge struct{ User, Follower schemas.UserID }

// RangesKept is how long after their last use the ranges of a user stay as they
// are; see Store.Ranges. It must be longer than any two versions of a user whose
// jobs are worked on at the same time are apart.
const RangesKept = 10 * time.Minute

// LastID is the greatest user id.
const LastID = schemas.UserID(1<<63 - 1)

// ErrConcurrentLoad says that a load of the same file went on somewhere else.
var ErrConcurrentLoad = errors.New("the file is being loaded by another process too")

// Store keeps who follows whom. Any goroutine may call any method. Errors are of
// the server or the file; trying again may help.
type Store interface {
	// Page appends to dst the followers of user with after < id <= through,
	// ascending, at most limit of them. Fewer than limit means that there are no
	// more.
	Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error)
	// Heads gives the first followers, at most most, of each of users, in their
	// order.
	Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error)
	// Count is how many followers user has.
	Count(ctx context.Context, user schemas.UserID) (int64, error)
	// Follows tells which of users follower follows, in their order.
	Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error)
	// Followers tells which of followers follow user, in their order.
	Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error)
	// Ranges cuts the followers of user into ranges of size, but for the last, which
	// may be smaller. It gives the last id of each; the last of all is LastID, so
	// that together they cover every id. Asked again within RangesKept it gives the
	// same ranges, even if the followers or size have changed meanwhile.
	Ranges(ctx context.Context, user schemas.UserID, size int) ([]schemas.UserID, error)
	// Add and Remove change edges and tell how many were new, or were there.
	Add(ctx context.Context, edges []Edge) (int64, error)
	Remove(ctx context.Context, edges []Edge) (int64, error)
	// List puts users on, or takes them off, the list of those whose followers are
	// told; Listed tells which of users are on it, in their order.
	List(ctx context.Context, users []schemas.UserID, on bool) error
	Listed(ctx context.Context, users []schemas.UserID) ([]bool, error)
	// Loaded is the place up to which the file of that name has been loaded.
	Loaded(ctx context.Context, file string) (int64, error)
	// Load adds the edges and moves the file's place from from to to, both or
	// neither; ErrElsewhere when the place is another. It tells how many edges were
	// new. from 0 starts anew.
	Load(ctx context.Context, file string, from, to int64, edges []Edge) (int64, error)
	// Optimize makes reading fast again after many edges were loaded.
	Optimize(ctx context.Context) error
	// Watch calls changed for every user whose followers changed or may have, 0
	// standing for all, until ctx ends or the watch breaks. It calls changed(0) first,
	// when the watch stands. Changes made by others' SQL are announced when edges are
	// deleted, not when they are inserted.
	Watch(ctx context.Context, changed func(schemas.UserID)) error
	// Ping tells whether the store answers.
	Ping(ctx context.Context) error
	Close()
}
