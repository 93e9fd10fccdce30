package expand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// Planner is the task of one partition of presence.transitions.
type Planner struct {
	room *Room
	now  func() time.Time
	many map[schemas.UserID]struct{} // who had jobs lately
	held *held
}

// manyKept bounds Planner.many.
const manyKept = 100_000

// NewPlanner makes one.
func (r *Room) NewPlanner() *Planner {
	return &Planner{room: r, now: time.Now, many: map[schemas.UserID]struct{}{}, held: newHeld()}
}

// Restore reads which of the records that come again were planned.
func (p *Planner) Restore(_ context.Context, at schemas.Commit, _ func(context.Context, schemas.Topic, int64, int64, func(*schemas.Record) error) error) error {
	p.held.restore(at)
	return nil
}

// Due is when the next transition that waits may be told.
func (p *Planner) Due() time.Time { return p.held.due() }

// Kept is the offset of the first transition that waits.
func (p *Planner) Kept() (first int64, any bool) { return p.held.first() }

// Handle is not called.
func (p *Planner) Handle(*schemas.Record, *schemas.Outbox) error {
	return errors.New("transitions are handled in batches")
}

// Checkpoint says what of the records behind the first that waits was planned.
func (p *Planner) Checkpoint() string { return p.held.checkpoint() }

// HandleBatch plans what is to be told of a batch of transitions, and of those before
// it that are due. Called again with the same batch it does the same.
func (p *Planner) HandleBatch(ctx context.Context, records []schemas.Record, out *schemas.Outbox) error {
	now := p.now()
	newest, err := p.newest(records, out)
	if err != nil {
		return err
	}
	todo := p.ripe(newest, now)
	if len(todo) > 0 {
		users := make([]schemas.UserID, len(todo))
		for i, w := range todo {
			users[i] = w.change.User
		}
		followers, err := p.room.Followers.Of(ctx, users)
		if err != nil {
			return fmt.Errorf("planning %d transitions: %w", len(todo), err)
		}
		var here []schemas.UserID
		for i, w := range todo {
			f := followers[i]
			p.held.done(w.change.User)
			if p.room.Config.Mode == Listed && !f.Listed {
				p.count("unlisted")
				continue
			}
			here = p.plan(w.change, f.IDs, f.Many, here, out)
		}
	}
	if len(records) > 0 {
		p.held.takenUpTo(records[len(records)-1].Offset + 1)
	}
	return nil
}

// ripe are the transitions to be planned now; the others wait. A hide does not wait, and
// nobody needs to hear of what waited before a newer one.
func (p *Planner) ripe(newest []waits, now time.Time) []waits {
	started := make(map[schemas.UserID]struct{}, len(newest))
	var todo []waits
	for _, w := range newest {
		until := p.held.until(w.change.User, now, p.room.Config.Gap)
		if until.IsZero() || w.change.Visibility == schemas.Nobody {
			todo = append(todo, w)
			started[w.change.User] = struct{}{}
		} else if p.held.wait(w.change, w.offset, until) {
			p.count("superseded")
		}
	}
	for _, w := range p.held.release(now) {
		if _, newer := started[w.change.User]; newer {
			p.count("superseded")
			continue
		}
		todo = append(todo, w)
	}
	slices.SortFunc(todo, byOffset)
	return todo
}

// newest is the newest transition of each user, in the order of the log; nobody
// needs to hear of those before it.
func (p *Planner) newest(records []schemas.Record, out *schemas.Outbox) (newest []waits, _ error) {
	oldest := schemas.MillisOf(p.now().Add(-p.room.Config.MaxAge))
	last := make(map[schemas.UserID]int, len(records))
	all := make([]*schemas.Transition, len(records))
	for i := range records {
		if p.held.planned(records[i].Offset) {
			continue
		}
		t, err := schemas.DecodeTransition(records[i].Value)
		rejected, err := p.room.reject(schemas.Transitions, &records[i], t, err, out)
		if err != nil {
			return nil, err
		}
		if rejected {
			continue
		}
		if records[i].Time < oldest {
			p.count("old")
			continue
		}
		if p.room.Config.HiddenOffline {
			var visible bool
			if t, visible = fanout.AsIfGone(t); !visible {
				p.count("hidden")
				continue
			}
		}
		all[i] = t
		if before, ok := last[t.User]; ok {
			p.count("superseded")
			all[before] = nil
		}
		last[t.User] = i
	}
	for i, t := range all {
		if t != nil {
			newest = append(newest, waits{change: t, offset: records[i].Offset})
		}
	}
	return newest, nil
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
	case r.hides(t):
		// The hide comes later in this log, and brings its own stop.
		p.count("superseded")
	case many:
		p.count("split")
		if len(p.many) >= manyKept {
			clear(p.many)
		}
		p.many[t.User] = struct{}{}
		out.Records = append(out.Records, r.job(&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: fanout.Shown(t)}))
		p.held.expanded(t.User, p.now(), r.Config.Gap)
	default:
		p.count("in_place")
		if had {
			// It was over the limit a moment ago: what is under way must not come after this.
			p.stop(t, out)
			delete(p.many, t.User)
		}
		if len(followers) > 0 {
			out.Records, here = r.deliver(out.Records, r.small(fanout.Shown(t)), followers, here)
			p.held.expanded(t.User, p.now(), r.Config.Gap)
		}
	}
	return here
}

func (p *Planner) stop(t *schemas.Transition, out *schemas.Outbox) {
	p.count("stop")
	out.Records = append(out.Records, p.room.job(&schemas.FanoutJob{Kind: schemas.StopJob, Transition: t}))
}

func (p *Planner) count(outcome string) { p.room.Metrics.Planned.WithLabelValues(outcome).Inc() }
