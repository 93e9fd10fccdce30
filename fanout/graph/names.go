package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// Names are what users are called, in pipelines whose users have names. nil in others.
type Names map[schemas.UserID]schemas.Name

// Add notes the name of a user. Two names with one id are a *CollisionError.
func (n Names) Add(user schemas.UserID, name schemas.Name) error {
	if known, ok := n[user]; ok && known != name {
		return &CollisionError{user}
	}
	n[user] = name
	return nil
}

// CollisionError says that the store knows a user id by another name. The edges of neither name are
// changed until one of both users is erased.
type CollisionError struct{ User schemas.UserID }

func (e *CollisionError) Error() string {
	return fmt.Sprintf("ALARM: user id %d belongs to another name already; the edges of the second name are refused", e.User)
}

// Names returns what users are called; those without a known name are left out.
func (s *Store) Names(ctx context.Context, users []schemas.UserID) (_ Names, err error) {
	defer wrap(&err, "reading the names of %d users", len(users))
	return s.Driver.Names(ctx, users)
}

// errNamedMeanwhile says that another transaction has named a user after missing was asked.
var errNamedMeanwhile = errors.New("another writer has named a user at the same instant")

// naming is Transact of what stores names: f gets those that are missing. If another writer names one
// of the users at the same instant, it begins again, so that each of two names with one id finds the
// other: that is a *CollisionError.
func (s *Store) naming(ctx context.Context, names Names, f func(tx Tx, missing Names) error) error {
	for {
		missing, err := s.missing(ctx, names)
		if err != nil {
			return err
		}
		err = s.Transact(ctx, func(tx Tx) error { return f(tx, missing) })
		if !errors.Is(err, errNamedMeanwhile) || ctx.Err() != nil {
			return err
		}
	}
}

// missing returns those of names that are not stored yet. One that is stored otherwise is a
// *CollisionError.
func (s *Store) missing(ctx context.Context, names Names) (Names, error) {
	if len(names) == 0 {
		return nil, nil
	}
	known, err := s.Names(ctx, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return nil, err
	}
	missing := Names{}
	for user, name := range names {
		stored, ok := known[user]
		if !ok {
			missing[user] = name
		} else if stored != name {
			return nil, &CollisionError{user}
		}
	}
	return missing, nil
}

// Named reports whether the store holds names, as those of pipelines whose users have names do.
func (s *Store) Named(ctx context.Context) (_ bool, err error) {
	defer wrap(&err, "asking whether users have names")
	n, err := s.Number(ctx, `SELECT count(*) FROM (SELECT 1 FROM follow_names LIMIT 1) AS named`)
	return n > 0, err
}

// NamesOfTenant returns users of a tenant who have a name in the graph, with ids greater than after,
// ascending, at most limit. It reads the names in the order of ids, those of other tenants too.
func (s *Store) NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int) (_ []schemas.UserName, err error) {
	defer wrap(&err, "listing the users of tenant %q in the graph", tenant)
	const query = `SELECT user_id FROM follow_names WHERE tenant = $1 AND user_id > $2 ORDER BY user_id LIMIT $3`
	users, err := s.IDs(ctx, nil, query, tenant, int64(after), limit)
	if err != nil {
		return nil, err
	}
	known, err := s.Names(ctx, users)
	if err != nil {
		return nil, err
	}
	names := make([]schemas.UserName, len(users))
	for i, user := range users {
		names[i] = schemas.UserName{User: user, Name: known[user]}
		names[i].Name.Tenant = tenant // a user who was erased meanwhile has no name
	}
	return names, nil
}
