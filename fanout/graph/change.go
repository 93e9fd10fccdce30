package graph

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stillhere/stillhere/schemas"
)

// ErrConcurrentLoad says that another process loads the same file or applies the same log.
var ErrConcurrentLoad = errors.New("the file is being loaded by another process too")

// Add adds edges and returns how many of them were new.
func (s *Store) Add(ctx context.Context, edges []Edge) (int64, error) {
	n, _, err := s.Change(ctx, edges, nil, nil)
	return n, err
}

// Remove removes edges and returns how many of them there were.
func (s *Store) Remove(ctx context.Context, edges []Edge) (int64, error) {
	_, n, err := s.Change(ctx, nil, edges, nil)
	return n, err
}

// Change removes and adds edges, all or nothing. It returns how many were new and how many of the
// others there were. An edge must not be in both. names are those of the users of add; a name that
// contradicts a stored one is a *CollisionError.
func (s *Store) Change(ctx context.Context, add, remove []Edge, names Names) (added, removed int64, err error) {
	defer wrap(&err, "adding %d edges and removing %d", len(add), len(remove))
	err = s.naming(ctx, names, func(tx Tx, names Names) (err error) {
		added, removed, err = change(ctx, tx, add, remove, names)
		return err
	})
	return added, removed, err
}

// change writes in the order of the edges, so that two transactions seldom wait for each other.
func change(ctx context.Context, tx Tx, add, remove []Edge, names Names) (added, removed int64, err error) {
	if len(remove) > 0 {
		if removed, err = tx.Delete(ctx, slices.SortedFunc(slices.Values(remove), compareEdges)); err != nil {
			return 0, 0, err
		}
	}
	if len(add) == 0 {
		return 0, removed, nil
	}
	if err := name(ctx, tx, names); err != nil {
		return 0, 0, err
	}
	if added, err = tx.Insert(ctx, add); err != nil { // sorts by itself
		return 0, 0, err
	}
	users := make([]schemas.UserID, len(add))
	for i, e := range add {
		users[i] = e.User
	}
	return added, removed, tx.Announce(ctx, users)
}

func name(ctx context.Context, tx Tx, names Names) error {
	if len(names) == 0 {
		return nil
	}
	named, err := tx.Name(ctx, names)
	if err == nil && named != int64(len(names)) {
		err = errNamedMeanwhile
	}
	return err
}

func compareEdges(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Follower, b.Follower))
}

// Loaded returns the position up to which the file or log of that name is in the store; 0 if
// nothing of it is.
func (s *Store) Loaded(ctx context.Context, name string) (_ int64, err error) {
	defer wrap(&err, "asking how far %s was loaded", name)
	return s.Number(ctx, `SELECT place FROM follow_loads WHERE file = $1`, name)
}

// advance moves the position of a file or log. A position that was not from is ErrConcurrentLoad.
func (s *Store) advance(ctx context.Context, tx Tx, name string, from, to int64) error {
	query, arguments := `UPDATE follow_loads SET place = $2`+s.Touch()+` WHERE file = $1 AND place = $3`, []any{name, to, from}
	if from == 0 {
		query, arguments = `INSERT INTO follow_loads (file, place) VALUES ($1, $2) ON CONFLICT DO NOTHING`, arguments[:2]
	}
	moved, err := tx.Exec(ctx, query, arguments...)
	if err == nil && moved != 1 {
		err = ErrConcurrentLoad
	}
	return err
}

// Load adds edges and moves the file's position from from to to, both or neither. It returns how
// many edges were new, and ErrConcurrentLoad if the position was not from. from 0 loads the file
// again from its start. names are as in Change.
func (s *Store) Load(ctx context.Context, file string, from, to int64, edges []Edge, names Names) (n int64, err error) {
	defer wrap(&err, "loading %d edges of %s from byte %d", len(edges), file, from)
	err = s.naming(ctx, names, func(tx Tx, names Names) error {
		if from == 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM follow_loads WHERE file = $1`, file); err != nil {
				return err
			}
		}
		if err := s.advance(ctx, tx, file, from, to); err != nil {
			return err
		}
		if err := name(ctx, tx, names); err != nil {
			return err
		}
		n, err = tx.Insert(ctx, edges)
		return err
	})
	return n, err
}

// Apply is Change of what the partition of a log says. With the edges it moves the stored position
// of the partition from from to to. It returns ErrConcurrentLoad if the position was not from.
func (s *Store) Apply(ctx context.Context, log string, from, to int64, add, remove []Edge, names Names) (added, removed int64, err error) {
	defer wrap(&err, "applying %s from offset %d to %d", log, from, to)
	err = s.naming(ctx, names, func(tx Tx, names Names) error {
		if err := s.advance(ctx, tx, log, from, to); err != nil {
			return err
		}
		added, removed, err = change(ctx, tx, add, remove, names)
		return err
	})
	return added, removed, err
}
