package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

const (
	maxWindow = 500
	// usersTimeout is how long a request waits until all users are read; then it is answered with those that are.
	usersTimeout = time.Second
	readyPause   = 50 * time.Millisecond
)

// user is a row of the list of users.
type user struct {
	schemas.NamedUser
	State      string         `json:"state"`
	Since      schemas.Millis `json:"since"`
	LastSeenAt schemas.Millis `json:"last_seen_at"`
	LastSeen   string         `json:"last_seen,omitempty"` // in place of it, as in a Presence
	// Coarseness is how far last_seen_at may be behind the newest heartbeat; left out if it is that of the
	// last change.
	Coarseness int64  `json:"last_seen_coarseness_ms,omitempty"`
	Visibility string `json:"visibility"`
	// Devices counts the present devices by kind; null if they are not known.
	Devices map[string]int `json:"devices"`
}

func (s *Server) shown(id schemas.UserID, name schemas.Name) schemas.NamedUser {
	return s.Cluster.Users.Called(id, name).Shown()
}

// coarse reports whether the policy of a tenant lets others learn when users were last here only coarsely.
func (s *Server) coarse(tenant string) bool {
	now := s.Current()
	return now.Policy.For(now.Tenants[tenant]).CoarseLastSeen
}

// usersAnswer is the answer to GET users.
type usersAnswer struct {
	Users []user `json:"users"`
	// Total is how many users the filters select.
	Total int            `json:"total"`
	AsOf  schemas.Millis `json:"as_of"`
	// Truncated: there are more users than are listed.
	Truncated bool `json:"truncated"`
	// Loading: not all users have been read yet.
	Loading bool `json:"loading"`
}

// getUsers answers GET users.
func (s *Server) getUsers(ctx context.Context, r *http.Request) (any, error) {
	values, err := parameters(r, "q", "state", "sort", "order", "offset", "limit")
	if err != nil {
		return nil, err
	}
	of, err := s.selectionOf(r, values)
	if err != nil {
		return nil, err
	}
	offset, err := count(values, "offset", 0, 0, maxUsers)
	if err != nil {
		return nil, err
	}
	limit, err := count(values, "limit", 100, 1, maxWindow)
	if err != nil {
		return nil, err
	}
	loaded, err := s.users.tail.await(ctx, usersTimeout)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	rows, truncated := s.users.set.list(of, now)
	answer := usersAnswer{Users: []user{}, Total: len(rows), AsOf: schemas.MillisOf(now), Truncated: truncated, Loading: !loaded}
	rows = rows[min(offset, len(rows)):min(offset+limit, len(rows))]
	for i, seen := range s.seen(ctx, rows) {
		answer.Users = append(answer.Users, s.userOf(of, rows[i], seen))
	}
	return answer, nil
}

func (s *Server) selectionOf(r *http.Request, values map[string]string) (of selection, err error) {
	if of.audience, err = s.audienceOf(r); err != nil {
		return of, err
	}
	of.server = s
	of.text, of.prefix, of.states = s.Cluster.Users.Text(), values["q"], values["state"]
	for word := range strings.SplitSeq(of.states, ",") {
		if of.states != "" && !slices.Contains([]string{"online", "away", "offline", hiddenWord}, word) {
			return of, schemas.Invalid("state", "must be of online, away, offline and hidden, separated by commas")
		}
	}
	switch of.by = values["sort"]; of.by {
	case "":
		of.by = "user_id"
	case "user_id", "state", "since":
	default:
		return of, schemas.Invalid("sort", "must be user_id, state or since")
	}
	switch values["order"] {
	case "", "asc":
	case "desc":
		of.down = true
	default:
		return of, schemas.Invalid("order", "must be asc or desc")
	}
	if utf8.RuneCountInString(of.prefix) > schemas.MaxName {
		return of, schemas.Invalid("q", "is longer than any name")
	}
	return of, nil
}

// seen is when the users were heard last, and by which devices, in their order. If Redis does not
// answer, and of users whose state may not be seen, nothing is known.
func (s *Server) seen(ctx context.Context, rows []*row) []redisview.Seen {
	all := make([]redisview.Seen, len(rows))
	var ids []schemas.UserID
	var at []int
	for i, r := range rows {
		if !r.hidden {
			ids, at = append(ids, r.user), append(at, i)
		}
	}
	if len(ids) == 0 {
		return all
	}
	found, err := s.View.Seen(ctx, ids)
	if err != nil {
		return all
	}
	for i := range found {
		all[at[i]] = found[i]
	}
	return all
}

func (s *Server) userOf(of selection, r *row, seen redisview.Seen) user {
	u := user{NamedUser: s.shown(r.user, r.name), State: of.stateOf(r), Visibility: schemas.VisibilityWord(schemas.Everyone)}
	u.Since, u.LastSeenAt = of.times(r)
	if r.hidden {
		u.Visibility = schemas.VisibilityWord(schemas.Nobody)
		return u
	}
	_, _, u.LastSeen = schemas.Override{LastSeen: of.lastSeen(r)}.Learned(r.state, r.seen, 0, schemas.MillisOf(time.Now()))
	if last := seen.LastSeen(); u.LastSeen == "" && last > u.LastSeenAt {
		u.LastSeenAt, u.Coarseness = last, int64(max(seen.Interval, schemas.MillisOf(time.Now())-seen.At))
	}
	if seen.At != 0 && seen.At >= r.since {
		u.Devices = map[string]int{}
		for _, d := range seen.Devices {
			u.Devices[schemas.KindWord(d.Kind)]++
		}
	}
	return u
}
