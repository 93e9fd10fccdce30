package live

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// moment is the star after a transition.
type moment struct {
	transition *schemas.Transition
	current    schemas.Current
	denied     map[schemas.UserID]schemas.Millis
}

// star is user 1, who denies viewers. View, list and channel may each be behind the log.
type star struct {
	t *testing.T
	h *hub

	mu                    sync.Mutex
	log                   []moment      // the first: nothing is known
	viewed, listed, given int           // what view and list have, and the channel has brought or lost
	lag                   bool          // view and list do not follow by themselves
	err                   error         // of the list
	asked                 int           // how often the list was read
	slow                  time.Duration // how long answers of view and list are on their way
}

const theStar = schemas.UserID(1)

// newStar makes a hub whose goroutines run until the bubble's test ends.
func newStar(t *testing.T, tweaks ...func(*fanout.Config)) *star {
	t.Helper()
	cfg := fanout.DefaultConfig()
	for _, tweak := range tweaks {
		tweak(&cfg)
	}
	nothing := moment{current: schemas.Current{User: theStar, State: schemas.Offline, Visibility: schemas.Everyone}}
	s := &star{t: t, log: []moment{nothing}}
	s.h = newHub(cfg, Dependencies{Bus: bareBus{}, View: s.view, Recent: s.recent, Missed: s.missed,
		Denying: s.denying, Denied: s.deniedBy, Log: slog.New(slog.DiscardHandler), Metrics: fanout.NewMetrics(nil),
		Deliveries: func(context.Context, func(*schemas.Delivery)) error { return nil },
		Keys:       cursor.NewKeys(func(context.Context, []byte) ([]byte, error) { return make([]byte, 32), nil })})
	s.becomes(schemas.Online)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.h.resyncs(ctx) })
	running.Go(func() { s.h.decides(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// follows appends a transition, which the channel has yet to bring.
func (s *star) follows(change func(*schemas.Transition, map[schemas.UserID]schemas.Millis)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.log[len(s.log)-1]
	at := schemas.MillisOf(time.Now())
	t := &schemas.Transition{User: theStar, From: last.current.State, To: last.current.State,
		At: at, LastSeen: at, LastActive: at,
		Cause: schemas.ActiveAgain, Visibility: last.current.Visibility, Version: 10 * schemas.Version(len(s.log)),
		Override: last.current.Override}
	denied := maps.Clone(last.denied)
	if denied == nil {
		denied = map[schemas.UserID]schemas.Millis{}
	}
	change(t, denied)
	s.log = append(s.log, moment{t, last.current.After(t), denied})
	if !s.lag {
		s.viewed, s.listed = len(s.log)-1, len(s.log)-1
	}
}

func (s *star) becomes(state schemas.State) {
	s.follows(func(t *schemas.Transition, _ map[schemas.UserID]schemas.Millis) { t.To = state })
	s.bring(true)
}

func (s *star) sees(visibility schemas.Visibility) {
	s.follows(func(t *schemas.Transition, _ map[schemas.UserID]schemas.Millis) {
		t.Cause, t.Visibility = schemas.VisibilityChange, visibility
	})
	s.bring(true)
}

// denies adds or removes viewers.
func (s *star) denies(add bool, viewers ...schemas.UserID) {
	s.follows(func(t *schemas.Transition, denied map[schemas.UserID]schemas.Millis) {
		t.Cause, t.AudienceBefore, t.Override.Audience = schemas.AudienceSet, t.Override.Audience, t.Version
		for _, v := range viewers {
			if denied[v] = t.At; !add {
				delete(denied, v)
			}
		}
	})
	s.bring(true)
}

// bring has the channel bring, or lose, what it has not brought yet, unless there is a lag.
func (s *star) bring(whole bool) {
	for !s.lag && s.next(whole) {
	}
}

// next has the channel bring or lose one transition.
func (s *star) next(bring bool) bool {
	s.mu.Lock()
	if s.given+1 >= len(s.log) {
		s.mu.Unlock()
		return false
	}
	s.given++
	c, visible := fanout.ChangeOf(s.log[s.given].transition)
	s.mu.Unlock()
	if visible && bring {
		s.h.Change(c)
	}
	return true
}

func (s *star) view(_ context.Context, ids []schemas.UserID, _ []schemas.Name) ([]schemas.Presence, error) {
	defer time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]schemas.Presence, len(ids))
	for i, id := range ids {
		if out[i] = schemas.NeverSeen(id, 0); id == theStar && s.viewed > 0 {
			out[i] = schemas.PresenceOf(s.log[s.viewed].current, 0, 0)
		}
	}
	return out, nil
}

func (s *star) recent(context.Context, []schemas.UserID) ([]fanout.Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.given; i > 0; i-- {
		if c, visible := fanout.ChangeOf(s.log[i].transition); visible {
			return []fanout.Change{c}, nil
		}
	}
	return nil, nil
}

func (s *star) missed(_ context.Context, _ string, _ []schemas.UserID, after cursor.Position,
) (missed []schemas.Presence, _ bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.log[1 : s.listed+1] {
		if _, visible := fanout.ChangeOf(m.transition); visible && m.current.Version > after.Versions[0] {
			missed = append(missed, schemas.PresenceOf(m.current, 0, 0))
		}
	}
	return missed, false, nil
}

func (s *star) deniedBy(_ context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error) {
	defer time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	m := s.log[s.listed]
	d := shown.Denied{Version: m.current.Override.Audience, Viewers: m.denied}
	switch {
	case user != theStar || at == 0:
		s.t.Errorf("the list of user %d is read from version %d on", user, at)
	case s.err != nil:
		return shown.Denied{}, s.err
	case d.Version < at:
		return shown.Denied{}, shown.ErrBehind
	}
	return d, nil
}

func (s *star) denying(ctx context.Context, viewer schemas.UserID, users []schemas.UserID, at []schemas.Version,
) ([]shown.Denying, error) {
	d, err := s.deniedBy(ctx, users[0], at[0])
	if len(users) != 1 || errors.Is(err, shown.ErrBehind) {
		return make([]shown.Denying, len(users)), nil
	}
	return []shown.Denying{{Version: d.Version, Since: d.Viewers[viewer], Hidden: d.Version}}, err
}

// fan is a viewer whose messages are kept.
type fan struct {
	*viewer
	t    *testing.T
	mu   sync.Mutex
	sent []watch.Message
	last string // cursor
}

func (s *star) fan(who schemas.UserID) *fan {
	f := &fan{t: s.t}
	f.viewer = s.h.newViewer(who, func(text []byte) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		var m watch.Message
		err := json.Unmarshal(text, &m)
		if m.User != nil {
			m.Users = []schemas.User{*m.User}
		}
		if m.Cursor != "" {
			f.last = m.Cursor
		}
		f.sent = append(f.sent, m)
		return err
	}, nil)
	s.t.Cleanup(f.close)
	return f
}

func (s *star) watchedBy(who schemas.UserID) *fan {
	f := s.fan(who)
	f.submit(request{kind: subscribe, ids: []schemas.UserID{theStar}})
	return f
}

// got fails unless these messages have come since the last call: each as "change null 20", "resync online 30".
func (f *fan) got(want ...string) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	got := []string{}
	for _, m := range f.sent {
		text := m.Type
		for _, u := range m.Users {
			text += " " + look(u)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		f.t.Errorf("viewer %d got %q, want %q", f.who, got, want)
	}
	f.sent = nil
}

func look(u schemas.User) string {
	state := "null"
	if u.State != nil {
		state = *u.State
	}
	if u.StaleSince != 0 {
		state += " stale"
	}
	return state + " " + u.Version
}
