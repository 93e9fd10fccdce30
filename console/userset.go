package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// maxUsers bounds the users that are kept.
	maxUsers = 1_000_000
	// orderings bounds the orders that are kept, orderingLifetime is how long one is used for further
	// windows: scrolling is a request for each window.
	orderings        = 8
	orderingLifetime = time.Second
)

// row is what presence.status says of a user. It is never changed.
type row struct {
	user             schemas.UserID
	name             schemas.Name
	state            schemas.State
	hidden           bool
	since, seen      schemas.Millis
	lastSeen         schemas.LastSeen // as the user chose it
	removed, unknown bool             // removed: neither present nor hidden; unknown: of no user
}

// rowOf reads a record of presence.status.
func rowOf(r *schemas.Record) row {
	if schemas.IsRulesKey(r.Key) {
		return row{unknown: true}
	}
	user, err := schemas.UserOfKey(r.Key)
	if err != nil {
		return row{unknown: true}
	}
	if r.Value == nil {
		return row{user: user, removed: true}
	}
	status, err := schemas.DecodeStatus(r.Value)
	if err != nil || status.User != user {
		return row{unknown: true}
	}
	hidden := status.Visibility == schemas.Nobody
	name := schemas.Name{Tenant: strings.Clone(status.Name.Tenant), Text: strings.Clone(status.Name.Text)} // may point into the record
	return row{user: user, name: name, state: status.State, hidden: hidden, since: status.Since, seen: status.LastSeen,
		lastSeen: status.Override.LastSeen, removed: status.State == schemas.Offline && !hidden}
}

// userSet holds the users who are present or hidden. Any goroutine may use it.
type userSet struct {
	mu        sync.Mutex // held for a few tens of milliseconds while a million users are listed
	most      int
	rows      map[schemas.UserID]*row
	truncated bool // some were left out
	changes   int  // since the beginning
	sorted    []ordering
}

func newUserSet() *userSet { return &userSet{most: maxUsers, rows: map[schemas.UserID]*row{}} }

// reset forgets all users.
func (u *userSet) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rows, u.truncated, u.changes, u.sorted = map[schemas.UserID]*row{}, false, 0, nil
}

// Apply takes records of presence.status.
func (u *userSet) Apply(_ context.Context, batch stream.Batch[row]) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range batch.Items {
		_, known := u.rows[r.user]
		switch {
		case r.unknown:
		case r.removed:
			delete(u.rows, r.user)
		case !known && len(u.rows) >= u.most:
			u.truncated = true
		default:
			u.rows[r.user] = &r
		}
	}
	u.changes += len(batch.Items)
	return nil
}

// complete says that all users are read: the orders of those that were until now are not used any more.
func (u *userSet) complete() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sorted = nil
}

// Start begins at the start of the topic.
func (u *userSet) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	return stream.StoredOffset{Next: -1, Topic: at.TopicID}, nil
}

// selection is which users are listed, in which order.
type selection struct {
	audience
	server *Server // has the policies
	text   bool    // users have names
	prefix string  // of the id or name
	states string  // words separated by commas; empty: all
	by     string  // user_id, state or since
	down   bool
}

// ordering is a list that was sorted.
type ordering struct {
	of      selection
	at      time.Time
	changes int
	rows    []*row
}

// list returns the users of a selection, in its order. The caller must not change the list.
func (u *userSet) list(of selection, now time.Time) (rows []*row, truncated bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sorted = slices.DeleteFunc(u.sorted, func(o ordering) bool {
		return o.changes != u.changes && now.Sub(o.at) > orderingLifetime
	})
	for _, o := range u.sorted {
		if o.of == of {
			return o.rows, u.truncated
		}
	}
	for _, r := range u.rows {
		if of.has(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, of.compare)
	if len(u.sorted) == orderings {
		u.sorted = slices.Delete(u.sorted, 0, 1)
	}
	u.sorted = append(u.sorted, ordering{of, now, u.changes, rows})
	return rows, u.truncated
}

// has reports whether the selection has a user.
func (s *selection) has(r *row) bool {
	switch {
	case s.offline && r.hidden:
		return false
	case s.text && (r.name.Text == "" || !s.audience.has(r.name)):
		return false
	case s.text && !strings.HasPrefix(r.name.Text, s.prefix), !s.text && !strings.HasPrefix(r.user.String(), s.prefix):
		return false
	case s.states == "":
		return true
	}
	for word := range strings.SplitSeq(s.states, ",") {
		if word == hiddenWord && r.hidden || word == s.stateOf(r) {
			return true
		}
	}
	return false
}

// hiddenWord stands for the state of users who are hidden from whoever asks.
const hiddenWord = "hidden"

// conceals reports whether the sender may not see the state of a user.
func (s *selection) conceals(r *row) bool { return r.hidden && !s.admin }

func (s *selection) stateOf(r *row) string {
	if s.conceals(r) {
		return hiddenWord
	}
	return schemas.StateWord(r.state)
}

// times are what the sender may see of the times of a user.
func (s *selection) times(r *row) (since, seen schemas.Millis) {
	switch {
	case s.conceals(r):
		return 0, 0
	case s.lastSeen(r) == 0:
		return r.since, r.seen
	case r.state == schemas.Online:
		return r.since, 0
	}
	return 0, 0
}

// lastSeen is what the sender learns of when a user was last here; 0: all.
func (s *selection) lastSeen(r *row) schemas.LastSeen {
	switch {
	case s.admin:
		return 0
	case s.server.coarse(r.name.Tenant):
		return max(r.lastSeen, schemas.SeenCoarsely)
	}
	return r.lastSeen
}

func (s *selection) compare(a, b *row) int {
	order := 0
	switch s.by {
	case "state":
		order = cmp.Compare(s.stateOf(a), s.stateOf(b))
	case "since":
		sinceA, _ := s.times(a)
		sinceB, _ := s.times(b)
		order = cmp.Compare(sinceA, sinceB)
	}
	if order == 0 {
		order = s.compareNames(a, b)
		if s.by != "user_id" {
			return order
		}
	}
	if s.down {
		return -order
	}
	return order
}

// compareNames orders by name and tenant, and where users have numbers by these.
func (s *selection) compareNames(a, b *row) int {
	if s.text {
		if order := strings.Compare(a.name.Text, b.name.Text); order != 0 {
			return order
		}
		if order := strings.Compare(a.name.Tenant, b.name.Tenant); order != 0 {
			return order
		}
	}
	return cmp.Compare(a.user, b.user)
}
