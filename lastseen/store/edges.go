package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Edges are where the log of changes begins for the users of tenants, by tenant, if that is later than
// for everybody. What happened before is not shown to anybody, and is about to be deleted or was.
type Edges map[string]schemas.Millis

// TenantLog is the log of changes by tenant, in text mode. The names of users say of which tenant they are.
type TenantLog interface {
	// TenantNames returns the tenants that have users, ascending.
	TenantNames(ctx context.Context) ([]string, error)
	// TenantEdges are where the log begins later for users of tenants, up to EdgesFor ago. Do not change them.
	TenantEdges(ctx context.Context) (Edges, error)
	// NamesOfTenant is that of Tenants.
	NamesOfTenant(ctx context.Context, tenant string, after schemas.UserID, limit int) ([]schemas.UserName, error)
	// MoveEdge moves the edge of a tenant, never back: from its return on, this process shows nothing of the
	// tenant's users from before, and others within EdgesFor. cleaned says that everything before the instant
	// was deleted.
	MoveEdge(ctx context.Context, tenant string, before schemas.Millis) (cleaned bool, err error)
	// Cleaned notes that everything before the instant was deleted.
	Cleaned(ctx context.Context, tenant string, before schemas.Millis) error
	// DropBefore deletes the oldest changes of users from before an instant, about most of them, and returns
	// how many; fewer than most: all of them.
	DropBefore(ctx context.Context, users []schemas.UserID, before schemas.Millis, most int) (int64, error)
	// Exclusively calls act unless another process is in it.
	Exclusively(ctx context.Context, act func(context.Context) error) error
}

// EdgesFor is how long a process may go by edges that were read before.
const EdgesFor = 10 * time.Second

const (
	// edgeUsers is how many users' changes are deleted together, edgeRows about how many changes.
	edgeUsers, edgeRows = 200, 5000
	edgePause           = 10 * time.Millisecond
	dayLength           = 24 * time.Hour
)

// EdgeOf is the edge of somebody who keeps changes of so many days besides that of now; 0: all are kept.
func EdgeOf(now time.Time, days int) schemas.Millis {
	if days <= 0 {
		return 0
	}
	return schemas.MillisOf(now.UTC().Truncate(dayLength).Add(-time.Duration(days) * dayLength))
}

// Cleaner deletes what is older than the days that tenants keep. One goroutine owns it.
type Cleaner struct {
	Log TenantLog
	// Days are those that a tenant keeps; 0: as everybody.
	Days func(tenant string) int
	// Grace is how long others may still go by the edges from before: EdgesFor, or less where there are none.
	Grace time.Duration
	// Dropped gets the number of deleted changes of each step, Pending that of tenants that are left.
	Dropped, Pending func(int64)

	done map[string]schemas.Millis // up to where tenants are cleaned
}

// Clean deletes in small steps, and returns when nothing is left, with the errors of all tenants. It does
// nothing while another process cleans.
func (c *Cleaner) Clean(ctx context.Context, now time.Time) error {
	return c.Log.Exclusively(ctx, func(ctx context.Context) error {
		tenants, err := c.Log.TenantNames(ctx)
		if err != nil {
			return err
		}
		var faults []error
		var todo []string
		if c.done == nil {
			c.done = map[string]schemas.Millis{}
		}
		for _, tenant := range tenants {
			before := EdgeOf(now, c.Days(tenant))
			if before == 0 || c.done[tenant] == before {
				continue
			}
			switch cleaned, err := c.Log.MoveEdge(ctx, tenant, before); {
			case err != nil:
				faults = append(faults, err)
			case cleaned:
				c.done[tenant] = before
			default:
				todo = append(todo, tenant)
			}
		}
		if len(todo) > 0 {
			if err := pause(ctx, c.Grace); err != nil {
				return err
			}
		}
		left := int64(len(todo))
		for _, tenant := range todo {
			c.Pending(left)
			before := EdgeOf(now, c.Days(tenant))
			err := c.drop(ctx, tenant, before)
			if err == nil {
				err = c.Log.Cleaned(ctx, tenant, before)
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("tenant %q: %w", tenant, err))
				continue
			}
			c.done[tenant] = before
			left--
		}
		c.Pending(left)
		return errors.Join(faults...)
	})
}

// drop deletes the changes of a tenant from before an instant.
func (c *Cleaner) drop(ctx context.Context, tenant string, before schemas.Millis) error {
	for after := schemas.UserID(0); ; {
		names, err := c.Log.NamesOfTenant(ctx, tenant, after, edgeUsers)
		if err != nil || len(names) == 0 {
			return err
		}
		users := make([]schemas.UserID, len(names))
		for i, n := range names {
			users[i] = n.User
		}
		for more := true; more; {
			n, err := c.Log.DropBefore(ctx, users, before, edgeRows)
			if err != nil {
				return err
			}
			c.Dropped(n)
			more = n >= edgeRows
			if err := pause(ctx, edgePause); err != nil {
				return err
			}
		}
		if after = users[len(users)-1]; len(users) < edgeUsers {
			return nil
		}
	}
}

// pause leaves the store to others.
func pause(ctx context.Context, of time.Duration) error {
	timer := time.NewTimer(of)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// namesOf is Names of Reader.
type namesOf = func(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)

// of returns the edges of users who have one.
func (e Edges) of(ctx context.Context, names namesOf, users []schemas.UserID) (map[schemas.UserID]schemas.Millis, error) {
	known, err := names(ctx, users)
	if err != nil {
		return nil, err
	}
	found := map[schemas.UserID]schemas.Millis{}
	for user, n := range known {
		if edge := e[n.Name.Tenant]; edge != 0 {
			found[user] = edge
		}
	}
	return found, nil
}

// History returns the query for what may be shown; false: nothing may.
func (e Edges) History(ctx context.Context, names namesOf, query HistoryQuery) (HistoryQuery, bool, error) {
	if len(e) == 0 {
		return query, true, nil
	}
	edges, err := e.of(ctx, names, []schemas.UserID{query.User})
	query.From = max(query.From, edges[query.User])
	return query, query.To == 0 || query.From < query.To, err
}

// Missed leaves out what may not be shown, and says that the log begins later. Changes of tenants that keep
// fewer days are missing for whoever has not seen them.
func (e Edges) Missed(ctx context.Context, names namesOf, query MissedQuery, missed Missed) (Missed, error) {
	if len(e) == 0 {
		return missed, nil
	}
	edges, err := e.of(ctx, names, query.Users)
	if err != nil {
		return missed, err
	}
	for _, edge := range edges {
		missed.Begins = max(missed.Begins, edge)
	}
	missed.Changes = slices.DeleteFunc(missed.Changes, func(t *schemas.Transition) bool { return t.At < edges[t.User] })
	return missed, nil
}

// entriesAtOnce is how many entries wait until the names of their users are read.
const entriesAtOnce = 1000

// Changes returns what may be shown of a range: the range, each for its entries without those that may not be
// shown, and flush, which has to be called at the end. Of everybody, names are read while entries come.
func (e Edges) Changes(ctx context.Context, names namesOf, of Range, each func(*Entry) error) (shown Range, filtered func(*Entry) error, flush func() error, err error) {
	if len(e) > 0 && of.User != 0 {
		edges, err := e.of(ctx, names, []schemas.UserID{of.User})
		of.From = max(of.From, edges[of.User])
		if of.To != 0 {
			of.From = min(of.From, of.To)
		}
		return of, each, func() error { return nil }, err
	}
	filtered, flush = e.filtered(ctx, names, each, func(entry *Entry, edge schemas.Millis) bool { return entry.At >= edge })
	return of, filtered, flush, nil
}

// AsOf is Changes for what was in force at an instant, of a user or (0) of everybody. Of tenants whose log
// begins later it is not known: their users are left out, and of one of them the error is a *ForgottenError.
func (e Edges) AsOf(ctx context.Context, names namesOf, at schemas.Millis, user schemas.UserID, each func(*Entry) error,
) (filtered func(*Entry) error, flush func() error, err error) {
	if len(e) > 0 && user != 0 {
		edges, err := e.of(ctx, names, []schemas.UserID{user})
		if err == nil {
			err = CheckKnown(at, edges[user])
		}
		return each, func() error { return nil }, err
	}
	filtered, flush = e.filtered(ctx, names, each, func(_ *Entry, edge schemas.Millis) bool { return CheckKnown(at, edge) == nil })
	return filtered, flush, nil
}

func (e Edges) filtered(ctx context.Context, names namesOf, each func(*Entry) error, shown func(*Entry, schemas.Millis) bool) (func(*Entry) error, func() error) {
	latest := schemas.Millis(math.MinInt64)
	for _, edge := range e {
		latest = max(latest, edge)
	}
	if len(e) == 0 {
		return each, func() error { return nil }
	}
	var waiting []Entry
	flush := func() error {
		users := make([]schemas.UserID, len(waiting))
		for i := range waiting {
			users[i] = waiting[i].User
		}
		slices.Sort(users)
		edges, err := e.of(ctx, names, slices.Compact(users))
		if err != nil {
			return err
		}
		for i := range waiting {
			if edge := edges[waiting[i].User]; edge != 0 && !shown(&waiting[i], edge) {
				continue
			}
			if err := each(&waiting[i]); err != nil {
				return err
			}
		}
		waiting = waiting[:0]
		return nil
	}
	return func(entry *Entry) error {
		if len(waiting) == 0 && shown(entry, latest) {
			return each(entry) // whosever it is
		}
		if waiting = append(waiting, *entry); len(waiting) < entriesAtOnce {
			return nil
		}
		return flush()
	}, flush
}

// Later are the edges of one tenant, or (nil) of all, of whom it is not known what was in force at an instant.
func (e Edges) Later(tenant *string, at schemas.Millis) Edges {
	later := Edges{}
	for name, begins := range e {
		if (tenant == nil || name == *tenant) && CheckKnown(at, begins) != nil {
			later[name] = begins
		}
	}
	return later
}

// Logged returns the changes that are written to the log: not those that it would not show.
func (e Edges) Logged(changes []*schemas.Transition) []*schemas.Transition {
	if len(e) == 0 || !slices.ContainsFunc(changes, e.isOver) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), e.isOver)
}

func (e Edges) isOver(t *schemas.Transition) bool {
	return t.Name.Text != "" && t.At < e[t.Name.Tenant]
}

// EdgeCache keeps edges for EdgesFor. The zero value is empty. Any goroutine may use it.
type EdgeCache struct {
	mu    sync.Mutex // protects what is below
	edges Edges
	read  time.Time
}

// Get returns the edges, which are never changed. It reads them if they are older than EdgesFor.
func (c *EdgeCache) Get(ctx context.Context, read func(context.Context) (Edges, error)) (Edges, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() && time.Since(c.read) < EdgesFor {
		return c.edges, nil
	}
	edges, err := read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading since when tenants keep changes: %w", err)
	}
	c.edges, c.read = edges, time.Now()
	return edges, nil
}

// Forget makes the next Get read.
func (c *EdgeCache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = time.Time{}
}
