package expand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Planner is the task of one partition of presence.transitions.
type Planner struct {
	deps    *Dependencies
	now     func() time.Time
	many    map[schemas.UserID]struct{} // users who had jobs lately
	delayed *delayed
}

// manyKept bounds Planner.many.
const manyKept = 100_000

// NewPlanner makes a Planner.
func (d *Dependencies) NewPlanner() *Planner {
	return &Planner{deps: d, now: time.Now, many: map[schemas.UserID]struct{}{}, delayed: newDelayed()}
}

// Restore reads from the checkpoint which of the records that are read again were planned.
func (p *Planner) Restore(_ context.Context, at stream.Assignment, _ stream.ReadFunc) error {
	p.delayed.restore(at)
	return nil
}

// Due is when the next delayed transition may be planned.
func (p *Planner) Due() time.Time { return p.delayed.nextDue() }

// Retained is the offset of the first delayed transition.
func (p *Planner) Retained() (first int64, any bool) { return p.delayed.firstOffset() }

// Handle is not called.
func (p *Planner) Handle(*schemas.Record, *stream.Outbox) error {
	return errors.New("transitions are handled in batches")
}

// Checkpoint says which of the records after the first retained one were planned.
func (p *Planner) Checkpoint() string { return p.delayed.checkpoint() }

// HandleBatch plans the deliveries of a batch of transitions and of the delayed ones that are due.
// Called again with the same batch it does the same.
func (p *Planner) HandleBatch(ctx context.Context, records []schemas.Record, out *stream.Outbox) error {
	now := p.now()
	newest, err := p.decodeNewest(records, out)
	if err != nil {
		return err
	}
	todo := p.selectDue(newest, now)
	if len(todo) > 0 {
		users := make([]schemas.UserID, len(todo))
		for i, w := range todo {
			users[i] = w.change.User
		}
		followers, err := p.deps.Followers.Of(ctx, users)
		if err != nil {
			return fmt.Errorf("planning %d transitions: %w", len(todo), err)
		}
		// Before anything changes here: a batch that fails comes again.
		lists, wait, err := p.denied(ctx, todo, followers)
		if err != nil {
			return fmt.Errorf("planning %d transitions: %w", len(todo), err)
		}
		names, err := p.names(ctx, users, followers)
		if err != nil {
			return fmt.Errorf("planning %d transitions: %w", len(todo), err)
		}
		var scratch []schemas.UserID
		for i, w := range todo {
			f := followers[i]
			p.delayed.remove(w)
			if wait[i] {
				p.wait(w, now)
				continue
			}
			if p.deps.Config.Mode == Listed && !f.Listed {
				p.count("unlisted")
				continue
			}
			scratch = p.plan(w.change, f, lists[i], names, scratch, out)
		}
	}
	if len(records) > 0 {
		p.delayed.advance(records[len(records)-1].Offset + 1)
	}
	return nil
}

// names returns the names of users who have changed and of those who may get a delivery; nil if users
// have no names.
func (p *Planner) names(ctx context.Context, changed []schemas.UserID, of []graph.Followers) (graph.Names, error) {
	followers := make([][]schemas.UserID, len(of))
	for i, f := range of {
		followers[i] = f.IDs
	}
	return p.deps.namesOf(ctx, changed, followers...)
}

// selectDue returns the transitions to plan now and delays the others. A hide is never delayed, nor is a transition
// with Denies: what its user did before is planned before it. A delayed transition is dropped when a newer one of its
// user is planned.
func (p *Planner) selectDue(newest []delayedChange, now time.Time) []delayedChange {
	started := make(map[schemas.UserID]struct{}, len(newest))
	upTo := make(map[schemas.UserID]int64, len(newest)) // what a user did before this offset is due
	for _, w := range newest {
		if w.change.Denies != "" {
			upTo[w.change.User] = w.offset
		}
	}
	var todo []delayedChange
	for _, w := range newest {
		user := w.change.User
		until := p.delayed.notBefore(user, now, p.deps.Config.Gap)
		switch {
		case w.change.Denies != "":
			todo = append(todo, w)
		case until.IsZero() || w.change.Visibility == schemas.Nobody:
			todo = append(todo, w)
			started[user] = struct{}{}
			upTo[user] = max(upTo[user], w.offset)
		case p.delayed.add(w.change, w.offset, until):
			p.count("superseded")
		}
	}
	for _, w := range p.delayed.takeDue(now, upTo) {
		if _, newer := started[w.change.User]; newer && w.change.Denies == "" {
			p.count("superseded")
			continue
		}
		todo = append(todo, w)
	}
	slices.SortFunc(todo, byOffset)
	return todo
}

// wait holds a transition back whose list of denied viewers is behind.
func (p *Planner) wait(w delayedChange, now time.Time) {
	if p.old(w.change) {
		p.count("old")
		return
	}
	p.count("behind")
	p.delayed.add(w.change, w.offset, now.Add(behindFor))
}

// old reports whether t waits for too long to be news.
func (p *Planner) old(t *schemas.Transition) bool {
	return t.At < schemas.MillisOf(p.now().Add(-p.deps.Config.MaxAge))
}

// decodeNewest returns the newest transition of each user, and those with Denies, in the order of the log.
func (p *Planner) decodeNewest(records []schemas.Record, out *stream.Outbox) (newest []delayedChange, _ error) {
	var all []delayedChange
	last := map[schemas.UserID]int{}
	for i := range records {
		if p.delayed.handled(records[i].Offset) {
			continue
		}
		t, err := p.decode(&records[i], out)
		if err != nil {
			return nil, err
		}
		if t != nil {
			if t.Denies == "" {
				last[t.User] = len(all)
			}
			all = append(all, delayedChange{change: t, offset: records[i].Offset})
		}
	}
	for i, c := range all {
		if c.change.Denies != "" || last[c.change.User] == i {
			newest = append(newest, c)
		} else {
			p.count("superseded")
		}
	}
	return newest, nil
}

// decode reads a transition; nil: it is not to be planned.
func (p *Planner) decode(record *schemas.Record, out *stream.Outbox) (*schemas.Transition, error) {
	t, err := schemas.DecodeTransition(record.Value)
	rejected, err := p.deps.reject(schemas.Transitions, record, t, err, out)
	switch {
	case err != nil || rejected:
		return nil, err
	case record.Time < schemas.MillisOf(p.now().Add(-p.deps.Config.MaxAge)):
		p.count("old")
		return nil, nil
	case t.Cause == schemas.AudienceSet:
		if !p.deps.announces(t) {
			p.count("audience")
			return nil, nil
		}
	case p.deps.Config.HiddenOffline:
		var visible bool
		if t, visible = shown.AsIfOffline(t); !visible {
			p.count("hidden")
			return nil, nil
		}
	}
	return t, nil
}

// plan writes the deliveries or the job of t, whose user denies the viewers in denied. It returns the scratch space.
func (p *Planner) plan(t *schemas.Transition, f graph.Followers, denied shown.Denied, names graph.Names,
	scratch []schemas.UserID, out *stream.Outbox,
) []schemas.UserID {
	d := p.deps
	_, had := p.many[t.User]
	switch {
	case t.Visibility == schemas.Nobody:
		p.count("hidden")
		if f.Many || had {
			p.stop(t, out)
		}
	case ofAnother(names, t):
		// The followers are those of another user.
		p.count("collided")
	case t.Denies != "":
		p.count("audience")
		if f.Many || had { // behind the jobs of the user
			out.Records = append(out.Records, d.job(&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: t}))
			break
		}
		for _, a := range d.announcements(t, denied) {
			followers := only(f.IDs, in(a.viewers))
			out.Records, scratch = d.deliver(out.Records, d.direct(a.transition, names), followers, scratch)
		}
	case d.hidden(t):
		// The hide comes later in this log and writes the STOP job.
		p.count("superseded")
	case f.Many:
		p.count("split")
		if len(p.many) >= manyKept {
			clear(p.many)
		}
		p.many[t.User] = struct{}{}
		out.Records = append(out.Records, d.job(&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: shown.Transition(t)}))
		p.delayed.expanded(t.User, p.now(), d.Config.Gap)
	default:
		p.count("in_place")
		if had {
			// The user was over the limit a moment ago: its jobs must not deliver after this.
			p.stop(t, out)
			delete(p.many, t.User)
		}
		if len(f.IDs) > 0 {
			out.Records, scratch = d.deliver(out.Records, d.direct(shown.Transition(t), names), f.IDs, scratch)
			p.delayed.expanded(t.User, p.now(), d.Config.Gap)
		}
	}
	return scratch
}

func (p *Planner) stop(t *schemas.Transition, out *stream.Outbox) {
	p.count("stop")
	out.Records = append(out.Records, p.deps.job(&schemas.FanoutJob{Kind: schemas.StopJob, Transition: t}))
}

func (p *Planner) count(outcome string) { p.deps.Metrics.Planned.WithLabelValues(outcome).Inc() }
