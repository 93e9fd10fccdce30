// Package watch receives changes of users as they happen, over the live stream.
//
//	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: "https://presence.example.com"}}, 1, 2, 3)
//	for event, err := range w.Events(ctx) {
//		if err != nil { return err } // refused for good
//		if event.Kind == watch.Changed { show(event.User) }
//	}
//
// A Watcher remembers the newest version of each user, and the stream's cursor. If the connection is
// lost, it connects again, after a growing, jittered pause or at the time that the server asks for, and
// subscribes to the users that it watches then. It yields every visible change that it missed, in the
// order of each user's versions. Where the server cannot list them (too many or too old; other users
// are watched now), it yields Resynced and the newest state of each user that is newer. So a program
// that shows the last Changed event of each user is up to date, whatever was lost in between.
package watch

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Config configures a Watcher. HTTP is required.
type Config struct {
	HTTP client.HTTP
	// Deliveries requests also the deliveries to the user of the token, which stillhere channel
	// live sends: changes of users whom that user follows.
	Deliveries bool
	// FirstWait [250ms] is the pause after a lost connection. It doubles up to MaxWait [15s]. Each
	// pause is jittered between half and all of it.
	FirstWait, MaxWait time.Duration
}

// Validate reports all faults, joined.
func (c Config) Validate() error {
	faults := []error{c.HTTP.Validate()}
	if c.FirstWait < 0 {
		faults = append(faults, schemas.Invalid("watch.first_wait", "must be positive"))
	}
	if c.MaxWait < 0 || c.MaxWait != 0 && c.MaxWait < c.FirstWait {
		faults = append(faults, schemas.Invalid("watch.max_wait", "must be at least first_wait"))
	}
	return errors.Join(faults...)
}

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	// Connected: the server has accepted the connection, or its policy has another Schedule.
	Connected Kind = "connected"
	// Changed: User is newer than the last Changed event of that user, or stale or unsure when that was
	// not, or the reverse.
	Changed Kind = "changed"
	// Delivered: User, whom the viewer follows, has changed.
	Delivered Kind = "delivered"
	// Collapsed: the program reads too slowly, and Count changes were skipped. The newest change of
	// each user follows.
	Collapsed Kind = "collapsed"
	// Resynced: the changes since the last connection cannot be listed. The newest change of each user
	// follows.
	Resynced Kind = "resynced"
	// Refused: the server refused a request of this connection with Err. If its code is
	// not_allowed, User.UserID may not be watched and is no longer watched.
	Refused Kind = "refused"
	// Disconnected: the connection was lost because of Err. The next attempt is after RetryIn;
	// until then earlier events may be out of date.
	Disconnected Kind = "disconnected"
)

// Event is a message of the stream or a change of the connection. Kind determines which fields are
// set.
type Event struct {
	Kind    Kind
	User    schemas.Presence
	Count   int
	Err     error // Refused: a *client.ProblemError
	RetryIn time.Duration
	// Schedule is when devices send heartbeats by the policy in force, and MaxUsers how many users
	// one connection may watch (Connected).
	Schedule schemas.Schedule
	MaxUsers int
}

// Watcher watches users. Any goroutine may call Add, Remove and Users, also while Events runs.
type Watcher struct {
	config  Config
	changed chan struct{} // buffered, for one signal
	behind  bool          // the connection was lost, and what was missed has not come; owned by Events
	// unsure are the users who were unsure or stale when the connection was lost. Those who still are come again
	// before the stream is resumed. Owned by Events.
	unsure map[schemas.UserID]bool

	mu     sync.Mutex // protects users, wanted and known
	users  []schemas.UserID
	wanted map[schemas.UserID]bool             // those of users
	known  map[schemas.UserID]schemas.Presence // as yielded
}

// New makes a watcher of users; Events connects it. The server bounds how many users one connection
// may watch (500 by default).
func New(c Config, users ...schemas.UserID) (*Watcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &Watcher{config: c, changed: make(chan struct{}, 1), wanted: map[schemas.UserID]bool{},
		known: map[schemas.UserID]schemas.Presence{}}
	w.Add(users...)
	return w, nil
}

// Add watches further users.
func (w *Watcher) Add(users ...schemas.UserID) {
	w.change(func() {
		for _, user := range users {
			if !w.wanted[user] {
				w.wanted[user] = true
				w.users = append(w.users, user)
			}
		}
	})
}

// Remove stops watching users. An event of one may still come.
func (w *Watcher) Remove(users ...schemas.UserID) {
	w.change(func() {
		for _, user := range users {
			delete(w.known, user)
			delete(w.wanted, user)
		}
		w.users = slices.DeleteFunc(w.users, func(user schemas.UserID) bool { return !w.wanted[user] })
	})
}

// Users returns the watched users.
func (w *Watcher) Users() []schemas.UserID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.users)
}

func (w *Watcher) change(do func()) {
	w.mu.Lock()
	do()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Events connects and yields events until ctx ends or the loop is left. An error is the last
// element: the server refuses the stream permanently, with a *client.ProblemError. Run one loop at
// a time.
func (w *Watcher) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		options := watch.Options{
			URL: strings.TrimRight(w.config.HTTP.URL, "/") + "/presence/stream", Client: w.config.HTTP.Client,
			Current: w.Users, Changed: w.changed, Deliveries: w.config.Deliveries,
			FirstWait: w.config.FirstWait, MaxWait: w.config.MaxWait, Resume: true,
			Authorize: func(ctx context.Context) (http.Header, error) { return connect.Header(ctx, w.config.HTTP) },
		}
		for message, err := range watch.Messages(ctx, options) {
			if refused := (*watch.Refused)(nil); errors.As(err, &refused) {
				err = connect.Problem(refused.Status, refused.Header, refused.Body)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, event := range w.events(message) {
				if !yield(event, nil) {
					return
				}
			}
		}
	}
}

// events are the events of a message of the stream.
func (w *Watcher) events(m watch.Message) []Event {
	lacksUser := m.User == nil && (m.Type == watch.Change || m.Type == watch.Delivery)
	if lacksUser || m.Problem == nil && m.Type == watch.Error {
		return nil // the message has no content
	}
	switch m.Type {
	case watch.Hello:
		return []Event{{Kind: Connected, Schedule: m.Schedule(), MaxUsers: m.MaxSubscriptions}}
	case watch.Snapshot, watch.Resync:
		events := w.newer(m.Users...)
		if w.behind {
			events = append([]Event{{Kind: Resynced}}, events...)
		}
		w.behind = false
		return events
	case watch.Resumed:
		w.behind = false
		return w.sure()
	case watch.Change:
		return w.newer(*m.User)
	case watch.Delivery:
		return []Event{{Kind: Delivered, User: *m.User}}
	case watch.Collapsed:
		return []Event{{Kind: Collapsed, Count: m.Count}}
	case watch.Disconnected:
		w.mu.Lock()
		w.behind = len(w.known) > 0
		w.unsure = map[schemas.UserID]bool{}
		for id, user := range w.known {
			if user.UnsureSince != 0 || user.StaleSince != 0 {
				w.unsure[id] = true
			}
		}
		w.mu.Unlock()
		return []Event{{Kind: Disconnected, Err: m.Cause, RetryIn: m.RetryIn}}
	case watch.Error:
		p := m.Problem
		event := Event{Kind: Refused, Err: &client.ProblemError{Code: p.Code, Message: p.Message, Field: p.Field}}
		if user, err := schemas.ParseUserID("user_id", p.UserID); err == nil && p.Code == "not_allowed" {
			event.User.UserID = user
			w.Remove(user)
		}
		return []Event{event}
	}
	return nil // reconnect: a Disconnected follows
}

// newer are the events of those watched users who are newer, or stale or unsure unlike before.
func (w *Watcher) newer(users ...schemas.Presence) (events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		delete(w.unsure, user.UserID)
		known, yielded := w.known[user.UserID]
		same := yielded && user.Version == known.Version && user.StaleSince == known.StaleSince &&
			user.UnsureSince == known.UnsureSince
		if same || yielded && known.Newer(user) || !w.wanted[user.UserID] {
			continue
		}
		w.known[user.UserID] = user
		events = append(events, Event{Kind: Changed, User: user})
	}
	return events
}

// sure are the events of those who were unsure or stale when the connection was lost, and no longer are.
func (w *Watcher) sure() (events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.unsure {
		if user, watched := w.known[id]; watched {
			user.UnsureSince, user.StaleSince = 0, 0
			w.known[id] = user
			events = append(events, Event{Kind: Changed, User: user})
		}
	}
	w.unsure = nil
	return events
}
