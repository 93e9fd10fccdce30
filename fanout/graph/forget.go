package graph

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Followed returns whom a user follows, with ids greater than after, ascending, at most limit of them.
func (s *Store) Followed(ctx context.Context, follower, after schemas.UserID, limit int) (_ []schemas.UserID, err error) {
	defer wrap(&err, "reading whom %d follows", follower)
	const query = `SELECT user_id FROM follows WHERE follower_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3`
	return s.IDs(ctx, nil, query, int64(follower), int64(after), limit)
}

// forgetAtOnce is how many edges one transaction of Forget removes.
const forgetAtOnce = 10_000

// Forget removes a user: its followers, whom it follows, its place on the list, its ranges and its name. It may
// be called again after an error; what was removed stays removed.
func (s *Store) Forget(ctx context.Context, user schemas.UserID) (err error) {
	defer wrap(&err, "forgetting user %d", user)
	for _, side := range []struct {
		page func() ([]schemas.UserID, error)
		edge func(schemas.UserID) Edge
	}{
		{func() ([]schemas.UserID, error) { return s.Page(ctx, nil, user, 0, LastID, forgetAtOnce) },
			func(other schemas.UserID) Edge { return Edge{user, other} }},
		{func() ([]schemas.UserID, error) { return s.Followed(ctx, user, 0, forgetAtOnce) },
			func(other schemas.UserID) Edge { return Edge{other, user} }},
	} {
		for full := true; full; {
			others, err := side.page()
			if err != nil {
				return err
			}
			edges := make([]Edge, len(others))
			for i, other := range others {
				edges[i] = side.edge(other)
			}
			if full = len(others) == forgetAtOnce; len(others) == 0 {
				break
			}
			if _, err := s.Remove(ctx, edges); err != nil {
				return err
			}
		}
	}
	err = s.Transact(ctx, func(tx Tx) error {
		for _, table := range []string{"follow_ranges", "follow_names", "fanout_users"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE user_id = $1`, int64(user)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.Scrub()
	}
	return err
}
