package expand

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// OnlineSet says which users are present, hidden or erased. Safe for concurrent use.
type OnlineSet interface {
	// Filter appends the present ones of users to dst.
	Filter(dst, users []schemas.UserID) []schemas.UserID
	// HiddenAfter reports whether user is hidden by a transition after version.
	HiddenAfter(user schemas.UserID, version schemas.Version) bool
	// ErasedAfter reports whether user was erased after version.
	ErasedAfter(user schemas.UserID, version schemas.Version) bool
}

// Graph is what workers need of the graph; see graph.Store.
type Graph interface {
	Page(ctx context.Context, dst []schemas.UserID, user, after, through schemas.UserID, limit int) ([]schemas.UserID, error)
	Ranges(ctx context.Context, user schemas.UserID, size int) ([]schemas.UserID, error)
	Followers(ctx context.Context, user schemas.UserID, followers []schemas.UserID) ([]bool, error)
}

// Followers is what the planner needs of the graph; see graph.Cache.
type Followers interface {
	Of(ctx context.Context, users []schemas.UserID) ([]graph.Followers, error)
}

// Dependencies are what all tasks of a process share.
type Dependencies struct {
	Config    Config
	Followers Followers
	Graph     Graph
	Names     Names // nil: users have no names
	Online    OnlineSet
	// Denied returns whom a user denies as of a version or later: shown.ErrBehind if that is not known yet, any other
	// error if it cannot answer. nil: nobody is denied.
	Denied  func(ctx context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error)
	Newest  *Newest
	Metrics *Metrics
	// Check returns a *schemas.FieldError for a transition that cannot belong to this log, and any
	// other error when it cannot decide now. nil accepts every transition.
	Check func(topic schemas.Topic, r *schemas.Record, t *schemas.Transition) error
	// Jobs and Deliveries are the numbers of partitions of these topics.
	Jobs, Deliveries int32

	once  sync.Once
	slots chan struct{} // a token for each job in progress
	limit *rate.Limiter // followers a second; nil: no limit
}

// burstsPerSecond is the rate divided by the burst of the limiter: unused time of 50 ms is saved up.
const burstsPerSecond = 20

// start makes what the workers share.
func (d *Dependencies) start() {
	d.slots = make(chan struct{}, d.Config.Parallel)
	if r := d.Config.Rate; r > 0 {
		d.limit = rate.NewLimiter(rate.Limit(r), max(1, int(r/burstsPerSecond)))
	}
}

// wait waits until n followers may be read.
func (d *Dependencies) wait(ctx context.Context, n int) error {
	for d.limit != nil && n > 0 {
		part := min(n, d.limit.Burst())
		if err := d.limit.WaitN(ctx, part); err != nil {
			return err
		}
		n -= part
	}
	return ctx.Err()
}

// hidden reports whether t must not be delivered because a later transition hides or erases its user.
// Where hidden users are shown as offline, followers may learn that the user is offline.
func (d *Dependencies) hidden(t *schemas.Transition) bool {
	return d.Online.ErasedAfter(t.User, t.Version) || (!d.Config.HiddenOffline || t.To != schemas.Offline) && d.Online.HiddenAfter(t.User, t.Version)
}

// reject sends a record to the dead-letter topic if its transition cannot be read or cannot belong
// to this log. An error means that it cannot decide now.
func (d *Dependencies) reject(topic schemas.Topic, record *schemas.Record, t *schemas.Transition, err error, out *stream.Outbox) (rejected bool, _ error) {
	if err == nil && d.Check != nil {
		err = d.Check(topic, record, t)
	}
	if bad := new(schemas.FieldError); err != nil && !errors.As(err, &bad) {
		return false, err
	}
	if err != nil {
		out.Rejected = append(out.Rejected, stream.Rejected{Record: record, Reason: err})
	}
	return err != nil, nil
}
