package expand

import (
	"maps"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// delayed holds the transitions of one partition that wait until Config.Gap has passed since their
// user's last expansion: the newest of each user. The committed offset stays at the first of them,
// and the checkpoint says which of the records after it were planned. The planner's goroutine owns
// it.
type delayed struct {
	recent  map[schemas.UserID]time.Time // the last expansion, if less than a gap ago
	order   []expanded                   // the same, oldest first
	waiting map[slot]delayedChange
	position
}

type expanded struct {
	user schemas.UserID
	at   time.Time
}

// slot has the newest of a user's transitions that wait, or one with Denies, of which all wait.
type slot struct {
	user   schemas.UserID
	denies int64 // the offset of one with Denies, plus one
}

// delayedChange is a transition that waits, and its offset.
type delayedChange struct {
	change *schemas.Transition
	offset int64
	due    time.Time
}

// maxDelayed bounds the waiting transitions of a partition, so that the checkpoint fits into the
// 4,096 bytes of metadata that Kafka keeps. maxRecent bounds the users whose last expansion is
// remembered. Beyond either bound expansions of one user come closer together than Config.Gap.
const (
	maxDelayed = 500
	maxRecent  = 100_000
)

func newDelayed() *delayed {
	return &delayed{recent: map[schemas.UserID]time.Time{}, waiting: map[slot]delayedChange{},
		position: position{pending: map[int64]struct{}{}}}
}

// notBefore returns when user may be expanded again; zero: now.
func (d *delayed) notBefore(user schemas.UserID, now time.Time, gap time.Duration) time.Time {
	if at, ok := d.recent[user]; ok && now.Before(at.Add(gap)) {
		return at.Add(gap)
	}
	return time.Time{}
}

func (w delayedChange) slot() slot {
	if w.change.Denies != "" {
		return slot{w.change.User, w.offset + 1}
	}
	return slot{user: w.change.User}
}

// add keeps t until due. It reports whether t replaced an older one.
func (d *delayed) add(t *schemas.Transition, offset int64, due time.Time) bool {
	w := delayedChange{t, offset, due}
	_, older := d.waiting[w.slot()]
	d.waiting[w.slot()] = w
	return older
}

// takeDue returns the transitions that are due or above maxDelayed, in the order of the log. Those of a user before the
// offset in upTo, and before another that is due, are due.
func (d *delayed) takeDue(now time.Time, upTo map[schemas.UserID]int64) []delayedChange {
	var due []delayedChange
	for _, w := range d.waiting {
		if !now.Before(w.due) {
			upTo[w.change.User] = max(upTo[w.change.User], w.offset+1)
		}
	}
	waits := func(w delayedChange) bool { return w.offset >= upTo[w.change.User] }
	for _, w := range d.waiting {
		if !waits(w) {
			due = append(due, w)
		}
	}
	if surplus := len(d.waiting) - len(due) - maxDelayed; surplus > 0 {
		var rest []delayedChange
		for _, w := range d.waiting {
			if waits(w) {
				rest = append(rest, w)
			}
		}
		slices.SortFunc(rest, byOffset)
		due = append(due, rest[:surplus]...)
	}
	slices.SortFunc(due, byOffset)
	return due
}

func byOffset(a, b delayedChange) int { return int(min(max(a.offset-b.offset, -1), 1)) }

// remove removes what waits in the slot of w, which has been planned or was superseded.
func (d *delayed) remove(w delayedChange) { delete(d.waiting, w.slot()) }

// expanded records that user was expanded now.
func (d *delayed) expanded(user schemas.UserID, now time.Time, gap time.Duration) {
	if gap == 0 {
		return
	}
	d.recent[user] = now
	d.order = append(d.order, expanded{user, now})
	for len(d.order) > 0 && (len(d.order) > maxRecent || !now.Before(d.order[0].at.Add(gap))) {
		if oldest := d.order[0]; d.recent[oldest.user].Equal(oldest.at) {
			delete(d.recent, oldest.user)
		}
		d.order = d.order[1:]
	}
}

// nextDue is when the first transition is due; zero when none waits.
func (d *delayed) nextDue() (due time.Time) {
	for _, w := range d.waiting {
		if due.IsZero() || w.due.Before(due) {
			due = w.due
		}
	}
	return due
}

// firstOffset is the smallest offset that waits.
func (d *delayed) firstOffset() (first int64, any bool) {
	for _, offset := range d.offsets() {
		return offset, true
	}
	return 0, false
}

func (d *delayed) offsets() []int64 {
	all := slices.Collect(maps.Keys(d.pending))
	for _, w := range d.waiting {
		all = append(all, w.offset)
	}
	slices.Sort(all)
	return all
}

// checkpoint is the metadata of the commit of everything handled so far.
func (d *delayed) checkpoint() string { return d.encode(d.offsets()) }
