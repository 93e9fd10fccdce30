package expand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Planner is the task of one partition of presence.transitions.
type Planner struct {
	room *Room
	now  func() time.Time
	many map[schemas.UserID]struct{} // who had jobs lately
}

// manyKept bounds Planner.many.
const manyKept = 100_000

// NewPlanner makes one.
func (r *Room) NewPlanner() *Planner {
	return &Planner{room: r, now: time.Now, many: map[schemas.UserID]struct{}{}}
}

// Restore has nothing to restore.
func (p *Planner) Restore(context.Context, schemas.Commit, func(context.Context, schemas.Topic, int64, int64, func(*schemas.Record) error) error) error {
	return nil
}

// Handle is not called.
func (p *Planner) Handle(*schemas.Record, *schemas.Outbox) error {
	return errors.New("transitions are handled in batches")
}

// Checkpoint has nothing to keep.
func (p *Planner) Checkpoint() string { return "" }

// HandleBatch plans what is to be told of a batch of transitions.
func (p *Planner) HandleBatch(ctx context.Context, records []schemas.Record, out *schemas.Outbox) error {
	newest, users := p.newest(records, out)
	if len(users) == 0 {
		return nil
	}
	followers, err := p.room.Followers.Of(ctx, users)
	if err != nil {
		return fmt.Errorf("planning %d transitions: %w", len(newest), err)
	}
	var here []schemas.UserID
	for i, t := range newest {
		f := followers[i]
		if p.room.Config.Mode == Listed && !f.Listed {
			p.count("unlisted")
			continue
		}
		here = p.plan(t, f.IDs, f.Many, here, out)
	}
	return nil
}

// newest is the newest transition of each user, in the order of the log; nobody
// needs to hear of those before it.
func (p *Planner) newest(records []schemas.Record, out *schemas.Outbox) (newest []*schemas.Transition, users []schemas.UserID) {
	oldest := schemas.MillisOf(p.now().Add(-p.room.Config.MaxAge))
	last := make(map[schemas.UserID]int, len(records))
	all := make([]*schemas.Transition, len(records))
	for i := range records {
		t, err := schemas.DecodeTransition(records[i].Value)
		if err != nil {
			out.Rejected = append(out.Rejected, schemas.Rejected{Record: &records[i], Reason: err})
			continue
		}
		if records[i].Time < oldest {
			p.count("old")
			continue
		}
		all[i] = t
		if before, ok := last[t.User]; ok {
			p.count("superseded")
			all[before] = nil
		}
		last[t.User] = i
	}
	for _, t := range all {
		if t != nil {
			newest, users = append(newest, t), append(users, t.User)
		}
	}
	return newest, users
}

// plan puts out what is to be done about t. It gives back the scratch space.
func (p *Planner) plan(t *schemas.Transition, followers []schemas.UserID, many bool, here []schemas.UserID, out *schemas.Outbox) []schemas.UserID {
	r := p.room
	_, had := p.many[t.User]
	switch {
	case t.Visibility == schemas.Nobody:
		p.count("hidden")
		if many || had {
			p.stop(t, out)
		}
	case r.Here.Hides(t.User, t.Version):
		// The hide comes later in this log, and brings its own stop.
		p.count("superseded")
	case many:
		p.count("split")
		if len(p.many) >= manyKept {
			clear(p.many)
		}
		p.many[t.User] = struct{}{}
		out.Records = append(out.Records, r.job(&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: t}))
	default:
		p.count("in_place")
		if had {
			// It was over the limit a moment ago: what is under way must not come after this.
			p.stop(t, out)
			delete(p.many, t.User)
		}
		if len(followers) > 0 {
			out.Records, here = r.deliver(out.Records, r.small(t), followers, here)
		}
	}
	return here
}

func (p *Planner) stop(t *schemas.Transition, out *schemas.Outbox) {
	p.count("stop")
	out.Records = append(out.Records, p.room.job(&schemas.FanoutJob{Kind: schemas.StopJob, Transition: t}))
}

func (p *Planner) count(outcome string) { p.room.Metrics.Planned.WithLabelValues(outcome).Inc() }
