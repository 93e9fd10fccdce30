package graph

import (
	"context"
	_ "embed"
	"errors"
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

// ErrConcurrentLoad says that another process loads the same file.
var ErrConcurrentLoad = errors.New("the file is being loaded by another process too")

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

// Add adds edges and returns how many of them were new.
func (s *Store) Add(ctx context.Context, edges []Edge) (n int64, err error) {
	users := make([]schemas.UserID, len(edges))
	for i, e := range edges {
		users[i] = e.User
	}
	err = s.Transact(ctx, func(tx Tx) (err error) {
		if n, err = tx.Insert(ctx, edges); err != nil {
			return err
		}
		return tx.Announce(ctx, users)
	})
	if err != nil {
		return 0, fmt.Errorf("adding %d edges: %w", len(edges), err)
	}
	return n, nil
}

// Remove removes edges and returns how many of them there were.
func (s *Store) Remove(ctx context.Context, edges []Edge) (n int64, err error) {
	err = s.Transact(ctx, func(tx Tx) (err error) { n, err = tx.Delete(ctx, edges); return err })
	if err != nil {
		return 0, fmt.Errorf("removing %d edges: %w", len(edges), err)
	}
	return n, nil
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

// Loaded returns the position up to which the file of that name has been loaded.
func (s *Store) Loaded(ctx context.Context, file string) (int64, error) {
	position, err := s.Number(ctx, `SELECT place FROM follow_loads WHERE file = $1`, file)
	if err != nil {
		return 0, fmt.Errorf("asking how far %s was loaded: %w", file, err)
	}
	return position, nil
}

// Load adds edges and moves the file's position from from to to, both or neither. It returns how
// many edges were new, and ErrConcurrentLoad if the position was not from. from 0 loads the file
// again from its start.
func (s *Store) Load(ctx context.Context, file string, from, to int64, edges []Edge) (n int64, err error) {
	err = s.Transact(ctx, func(tx Tx) error {
		query, arguments := `UPDATE follow_loads SET place = $2`+s.Touch()+` WHERE file = $1 AND place = $3`, []any{file, to, from}
		if from == 0 {
			query = `INSERT INTO follow_loads (file, place) VALUES ($1, $2)
				ON CONFLICT (file) DO UPDATE SET place = excluded.place` + s.Touch()
			arguments = arguments[:2]
		}
		if moved, err := tx.Exec(ctx, query, arguments...); err != nil {
			return err
		} else if moved != 1 {
			return ErrConcurrentLoad
		}
		n, err = tx.Insert(ctx, edges)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("loading %d edges of %s from byte %d: %w", len(edges), file, from, err)
	}
	return n, nil
}
