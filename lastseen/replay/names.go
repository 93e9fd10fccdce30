package replay

import (
	"context"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Names is what users are called, in text mode. Several goroutines may use it at the same time.
type Names interface {
	// Names returns what is known of the names of ids, which has no duplicates.
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
	// Refresh makes Names know what was written so far of the users of a partition.
	Refresh(ctx context.Context, partition int32) error
}

const (
	// namedRows is how many rows are named at a time.
	namedRows = 2048
	// namesKept bounds the names that a namer remembers.
	namesKept = 1 << 17
)

// namer gives rows their names before they are emitted, and leaves out those of other tenants. Several
// rows are named at a time.
//
// A change carries the name that was known when it was published. What is known now goes before it: an id
// with two names has none, and a name may have come later.
type namer struct {
	names  Names
	tenant *string // nil: all
	emit   func(*store.Entry) error

	rows    []store.Entry // that wait
	known   map[schemas.UserID]schemas.UserName
	asked   []schemas.UserID
	unnamed int64 // rows without a name so far, emitted or left out
}

// newNamer returns nil in int mode.
func (o *Options) newNamer(emit func(*store.Entry) error) *namer {
	if o.Names == nil {
		return nil
	}
	return &namer{names: o.Names, tenant: o.Filter.Tenant, emit: emit, known: map[schemas.UserID]schemas.UserName{}}
}

// take takes the next row, which it copies.
func (n *namer) take(ctx context.Context, e *store.Entry) error {
	if n.rows = append(n.rows, *e); len(n.rows) < namedRows {
		return nil
	}
	return n.flush(ctx)
}

// flush emits the rows that wait.
func (n *namer) flush(ctx context.Context) error {
	if err := n.ask(ctx); err != nil {
		return err
	}
	for i := range n.rows {
		e := &n.rows[i]
		e.Name = store.NameOf(n.known[e.User], e.Name)
		if e.Name.Text == "" {
			n.unnamed++
		}
		if n.tenant != nil && (e.Name.Text == "" || e.Name.Tenant != *n.tenant) {
			continue
		}
		if err := n.emit(e); err != nil {
			return err
		}
	}
	n.rows = n.rows[:0]
	return nil
}

// takeFresh is take of a row of a partition that was published just now.
func (n *namer) takeFresh(ctx context.Context, e *store.Entry, partition int32) error {
	if n.rows = append(n.rows, *e); len(n.rows) < namedRows {
		return nil
	}
	return n.flushFresh(ctx, partition)
}

// flushFresh is flush with what is known by now.
func (n *namer) flushFresh(ctx context.Context, partition int32) error {
	if len(n.rows) == 0 {
		return nil
	}
	clear(n.known)
	if err := n.names.Refresh(ctx, partition); err != nil {
		return err
	}
	return n.flush(ctx)
}

// ask makes the names of the waiting rows known.
func (n *namer) ask(ctx context.Context) error {
	if len(n.known) > namesKept {
		clear(n.known)
	}
	n.asked = n.asked[:0]
	for i := range n.rows {
		user := n.rows[i].User
		if _, known := n.known[user]; !known {
			n.known[user] = schemas.UserName{}
			n.asked = append(n.asked, user)
		}
	}
	if len(n.asked) == 0 {
		return nil
	}
	found, err := n.names.Names(ctx, n.asked)
	if err != nil {
		return err
	}
	for user, name := range found {
		n.known[user] = name
	}
	return nil
}
