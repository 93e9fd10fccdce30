package expand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/schemas"
	"golang.org/x/sync/errgroup"
)

// behindFor is how long a transition waits before the planner reads again a list of denied viewers that is behind.
const behindFor = 100 * time.Millisecond

// listsAtOnce is how many lists the planner reads at the same time.
const listsAtOnce = 16

// deniedBy reads whom the user of t denies, as of t or later.
func (d *Dependencies) deniedBy(ctx context.Context, t *schemas.Transition) (shown.Denied, error) {
	if d.Denied == nil {
		return shown.Denied{}, nil
	}
	denied, err := d.Denied(ctx, t.User, t.Override.Audience)
	if err != nil {
		err = fmt.Errorf("reading whom user %d denies: %w", t.User, err)
	}
	return denied, err
}

// allowed returns those of followers who are not denied, in followers if all are.
func allowed(followers []schemas.UserID, denied shown.Denied) []schemas.UserID {
	if len(denied.Viewers) == 0 {
		return followers
	}
	return only(followers, func(id schemas.UserID) bool { _, is := denied.Viewers[id]; return !is })
}

// only returns a copy of those of users that keep accepts.
func only(users []schemas.UserID, keep func(schemas.UserID) bool) []schemas.UserID {
	return slices.DeleteFunc(slices.Clone(users), func(id schemas.UserID) bool { return !keep(id) })
}

// in reports whether users, who ascend, have a user.
func in(users []schemas.UserID) func(schemas.UserID) bool {
	return func(id schemas.UserID) bool { _, found := slices.BinarySearch(users, id); return found }
}

// named are the viewers in the Denies of t, ascending.
func named(t *schemas.Transition) []schemas.UserID {
	add, remove := t.Denies.Changes()
	add = append(add, remove...)
	slices.Sort(add)
	return add
}

// announcement is a transition and the viewers who get it, if they follow the user.
type announcement struct {
	transition *schemas.Transition
	viewers    []schemas.UserID
}

// announcements are what the viewers get whom t, with Denies, names. Viewers who are denied no longer get the present
// state, as after a show. Where hidden users are shown as offline, viewers who are denied since t get that the user goes
// offline. Viewers who were denied before t must not learn the state again.
func (d *Dependencies) announcements(t *schemas.Transition, denied shown.Denied) (all []announcement) {
	add, remove := t.Denies.Changes()
	shownAs, seen := shown.AsNull, *t
	if d.Config.HiddenOffline {
		shownAs = shown.AsIfOffline
	}
	seen.Cause = schemas.VisibilityChange
	if show, visible := shownAs(&seen); visible && !d.hidden(show) && !d.Newest.Superseded(show) {
		all = append(all, announcement{show, allowed(remove, denied)})
	}
	seen.Visibility = schemas.Nobody
	if bye, visible := shownAs(&seen); visible && d.Config.HiddenOffline && !d.hidden(bye) {
		all = append(all, announcement{bye, only(add, func(id schemas.UserID) bool { return denied.Viewers[id] == t.At })})
	}
	return all
}

// announces reports whether t, with the cause AudienceSet, may have announcements.
func (d *Dependencies) announces(t *schemas.Transition) bool {
	if t.Denies == "" || t.Visibility == schemas.Nobody {
		return false
	}
	_, remove := t.Denies.Changes()
	return d.Config.HiddenOffline && t.To != schemas.Offline || !d.Config.HiddenOffline && len(remove) > 0
}

// denied reads whom the users of todo deny, and removes from of who gets no delivery. A transition whose list is behind
// has to wait, and with it the later ones of its user.
func (p *Planner) denied(ctx context.Context, todo []delayedChange, of []graph.Followers) (
	lists []shown.Denied, wait []bool, _ error,
) {
	lists, wait = make([]shown.Denied, len(todo)), make([]bool, len(todo))
	behind := map[schemas.UserID]bool{}
	waiting := len(p.delayed.waiting)
	for _, w := range todo {
		if _, waits := p.delayed.waiting[w.slot()]; waits {
			waiting--
		}
	}
	var reads errgroup.Group
	reads.SetLimit(listsAtOnce)
	faults, needs := make([]error, len(todo)), make([]bool, len(todo))
	for i, w := range todo {
		t, f := w.change, &of[i]
		if t.Denies != "" {
			f.IDs = only(f.IDs, in(named(t)))
		}
		if needs[i] = t.Visibility != schemas.Nobody && t.Override.Audience != 0 && (f.Many || len(f.IDs) > 0); needs[i] {
			reads.Go(func() error { lists[i], faults[i] = p.deps.deniedBy(ctx, t); return nil })
		}
	}
	_ = reads.Wait() // faults has the errors
	for i, w := range todo {
		if !needs[i] {
			continue
		}
		t, f, err := w.change, &of[i], faults[i]
		behind[t.User] = behind[t.User] || errors.Is(err, shown.ErrBehind)
		switch wait[i] = behind[t.User]; {
		case wait[i] && p.old(t):
		case wait[i] && waiting >= maxDelayed:
			return nil, nil, shown.ErrBehind // of more transitions than may wait: the batch comes again
		case wait[i]:
			waiting++
		case err != nil:
			return nil, nil, err
		case t.Denies == "":
			f.IDs = allowed(f.IDs, lists[i])
		}
	}
	return lists, wait, nil
}
