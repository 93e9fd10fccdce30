package graph

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/schemas"
)

// forgetAtOnce is how many edges one transaction of Forget removes.
const forgetAtOnce = 10_000

// Forget removes a user: its followers, whom it follows, its place on the list and its ranges. It may
// be called again after an error; what was removed stays removed.
func (s *Store) Forget(ctx context.Context, user schemas.UserID) error {
	for _, side := range []struct {
		query string
		edge  func(schemas.UserID) Edge
	}{
		{`SELECT follower_id FROM follows WHERE user_id = $1 ORDER BY follower_id LIMIT $2`,
			func(other schemas.UserID) Edge { return Edge{user, other} }},
		{`SELECT user_id FROM follows WHERE follower_id = $1 ORDER BY user_id LIMIT $2`,
			func(other schemas.UserID) Edge { return Edge{other, user} }},
	} {
		for full := true; full; {
			others, err := s.IDs(ctx, nil, side.query, int64(user), forgetAtOnce)
			if err != nil {
				return fmt.Errorf("forgetting user %d: %w", user, err)
			}
			edges := make([]Edge, len(others))
			for i, other := range others {
				edges[i] = side.edge(other)
			}
			if full = len(others) == forgetAtOnce; len(others) == 0 {
				break
			}
			if _, err := s.Remove(ctx, edges); err != nil {
				return fmt.Errorf("forgetting user %d: %w", user, err)
			}
		}
	}
	err := s.Transact(ctx, func(tx Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM follow_ranges WHERE user_id = $1`, int64(user)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM fanout_users WHERE user_id = $1`, int64(user))
		return err
	})
	if err != nil {
		return fmt.Errorf("forgetting user %d: %w", user, err)
	}
	return nil
}
