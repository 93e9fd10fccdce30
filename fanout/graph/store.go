package graph

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Edge says that Follower receives the changes of User.
type Edge struct{ User, Follower schemas.UserID }

// RangesKept is how long after their last use the ranges of a user stay the same; see Store.Ranges.
// Two versions of a user whose jobs run at the same time must be closer together than this.
const RangesKept = 10 * time.Minute

// LastID is the greatest user id.
const LastID = schemas.UserID(1<<63 - 1)

//go:embed ranges.sql
var rangesSQL string

// Store holds who follows whom. Any goroutine may call any method. Errors come from the server or
// the file; a second try may succeed. pggraph and sqlitegraph open Stores.
type Store struct{ Driver }

// Page appends to dst the followers of user with after < id <= through, ascending, at most limit of
// them. Fewer than limit means that there are no more.
func (s *Store) Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) (_ []schemas.UserID, err error) {
	defer wrap(&err, "reading followers of %d after %d", user, after)
	begin := len(dst)
	dst, err = s.IDs(ctx, dst, s.Driver.Page(), int64(user), int64(after), int64(through), limit)
	sortIDs(dst[begin:])
	return dst, err
}

// Heads returns the first followers, at most most, of each of users, in the order of users.
func (s *Store) Heads(ctx context.Context, users []schemas.UserID, most int) (heads [][]schemas.UserID, err error) {
	defer wrap(&err, "reading followers of %d users", len(users))
	heads, err = s.Driver.Heads(ctx, users, most)
	for _, head := range heads {
		sortIDs(head)
	}
	return heads, err
}

// wrap adds to an error what was attempted.
func wrap(err *error, format string, arguments ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, arguments...), *err)
	}
}

// sortIDs sorts what an aggregate of Postgres returned: it keeps the order of its input, but SQL does
// not promise that.
func sortIDs(ids []schemas.UserID) {
	if !slices.IsSorted(ids) {
		slices.Sort(ids)
	}
}

// Count returns how many followers user has.
func (s *Store) Count(ctx context.Context, user schemas.UserID) (_ int64, err error) {
	defer wrap(&err, "counting the followers of %d", user)
	return s.Number(ctx, `SELECT count(*) FROM follows WHERE user_id = $1`, int64(user))
}

// Follows reports which of users follower follows, in the order of users.
func (s *Store) Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) (_ []bool, err error) {
	defer wrap(&err, "asking whom of %d users %d follows", len(users), follower)
	return s.which(ctx, users, `SELECT user_id FROM follows WHERE follower_id = $2 AND user_id `, int64(follower))
}

// Followers reports which of followers follow user, in the order of followers.
func (s *Store) Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) (_ []bool, err error) {
	defer wrap(&err, "asking who of %d users follows %d", len(followers), user)
	return s.which(ctx, followers, `SELECT follower_id FROM follows WHERE user_id = $2 AND follower_id `, int64(user))
}

// Listed reports which of users are on the list, in their order.
func (s *Store) Listed(ctx context.Context, users []schemas.UserID) (_ []bool, err error) {
	defer wrap(&err, "asking which users are fanned out")
	return s.which(ctx, users, `SELECT user_id FROM fanout_users WHERE user_id `)
}

// which reports which of ids a query finds. query ends before the condition on ids.
func (s *Store) which(ctx context.Context, ids []schemas.UserID, query string, arguments ...any) ([]bool, error) {
	condition, list := s.In(ids)
	found, err := s.IDs(ctx, nil, query+condition, append([]any{list}, arguments...)...)
	if err != nil {
		return nil, err
	}
	known := make(map[schemas.UserID]bool, len(found))
	for _, id := range found {
		known[id] = true
	}
	flags := make([]bool, len(ids))
	for i, id := range ids {
		flags[i] = known[id]
	}
	return flags, nil
}

// Ranges cuts the followers of user into ranges of size; the last range may be smaller. It returns
// the last id of each range; that of the last range is LastID, so the ranges cover every id. Within
// RangesKept of the last use it returns the same ranges, even if the followers or size changed.
func (s *Store) Ranges(ctx context.Context, user schemas.UserID, size int) (ends []schemas.UserID, err error) {
	defer wrap(&err, "cutting the followers of %d into ranges", user)
	ends, err = s.StoredRanges(ctx, user)
	if err != nil || ends != nil {
		return ends, err
	}
	if ends, err = s.IDs(ctx, nil, rangesSQL, int64(user), size); err != nil {
		return nil, err
	}
	ends = append(ends, LastID)
	return ends, s.StoreRanges(ctx, user, ends)
}

// List adds users to the list of those whose followers receive changes, or removes them from it.
func (s *Store) List(ctx context.Context, users []schemas.UserID, on bool) (err error) {
	defer wrap(&err, "changing the list of users who are fanned out")
	return s.Transact(ctx, func(tx Tx) error {
		query := `DELETE FROM fanout_users WHERE user_id = $1`
		if on {
			query = `INSERT INTO fanout_users (user_id) VALUES ($1) ON CONFLICT DO NOTHING`
		}
		// In one order, so that two calls do not wait for each other.
		for _, user := range slices.Sorted(slices.Values(users)) {
			if _, err := tx.Exec(ctx, query, int64(user)); err != nil {
				return err
			}
		}
		return tx.Announce(ctx, users)
	})
}
