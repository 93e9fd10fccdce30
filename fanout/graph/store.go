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
func (s *Store) Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error) {
	begin := len(dst)
	dst, err := s.IDs(ctx, dst, s.Driver.Page(), int64(user), int64(after), int64(through), limit)
	if err != nil {
		return dst, fmt.Errorf("reading followers of %d after %d: %w", user, after, err)
	}
	sortIDs(dst[begin:])
	return dst, nil
}

// Heads returns the first followers, at most most, of each of users, in the order of users.
func (s *Store) Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error) {
	heads, err := s.Driver.Heads(ctx, users, most)
	if err != nil {
		return nil, fmt.Errorf("reading followers of %d users: %w", len(users), err)
	}
	for _, head := range heads {
		sortIDs(head)
	}
	return heads, nil
}

// sortIDs sorts what an aggregate of Postgres returned: it keeps the order of its input, but SQL does
// not promise that.
func sortIDs(ids []schemas.UserID) {
	if !slices.IsSorted(ids) {
		slices.Sort(ids)
	}
}

// Count returns how many followers user has.
func (s *Store) Count(ctx context.Context, user schemas.UserID) (int64, error) {
	n, err := s.Number(ctx, `SELECT count(*) FROM follows WHERE user_id = $1`, int64(user))
	if err != nil {
		return 0, fmt.Errorf("counting the followers of %d: %w", user, err)
	}
	return n, nil
}

// Follows reports which of users follower follows, in the order of users.
func (s *Store) Follows(ctx context.Context, follower schemas.UserID, users []schemas.UserID) ([]bool, error) {
	follows, err := s.which(ctx, users, `SELECT user_id FROM follows WHERE follower_id = $2 AND user_id `, int64(follower))
	if err != nil {
		return nil, fmt.Errorf("asking whom of %d users %d follows: %w", len(users), follower, err)
	}
	return follows, nil
}

// Followers reports which of followers follow user, in the order of followers.
func (s *Store) Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error) {
	follow, err := s.which(ctx, followers, `SELECT follower_id FROM follows WHERE user_id = $2 AND follower_id `, int64(user))
	if err != nil {
		return nil, fmt.Errorf("asking who of %d users follows %d: %w", len(followers), user, err)
	}
	return follow, nil
}

// Listed reports which of users are on the list, in their order.
func (s *Store) Listed(ctx context.Context, users []schemas.UserID) ([]bool, error) {
	listed, err := s.which(ctx, users, `SELECT user_id FROM fanout_users WHERE user_id `)
	if err != nil {
		return nil, fmt.Errorf("asking which users are fanned out: %w", err)
	}
	return listed, nil
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
func (s *Store) Ranges(ctx context.Context, user schemas.UserID, size int) ([]schemas.UserID, error) {
	ends, err := s.StoredRanges(ctx, user)
	if err == nil && ends == nil {
		if ends, err = s.IDs(ctx, nil, rangesSQL, int64(user), size); err == nil {
			ends = append(ends, LastID)
			err = s.StoreRanges(ctx, user, ends)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cutting the followers of %d into ranges: %w", user, err)
	}
	return ends, nil
}

// List adds users to the list of those whose followers receive changes, or removes them from it.
func (s *Store) List(ctx context.Context, users []schemas.UserID, on bool) error {
	err := s.Transact(ctx, func(tx Tx) error {
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
	if err != nil {
		return fmt.Errorf("changing the list of users who are fanned out: %w", err)
	}
	return nil
}
