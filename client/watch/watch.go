// Package watch receives changes of users as they happen, over the live stream.
//
//	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: "https://presence.example.com"}}, 1, 2, 3)
//	for event, err := range w.Events(ctx) {
//		if err != nil { return err } // refused for good
//		if event.Kind == watch.Changed { show(event.User) }
//	}
//
// A Watcher knows the newest version of each user. When the connection is lost it connects
// again, after a growing, jittered pause or when the server asks it to, and asks for whom it
// watches then; of what the server sends again it yields what is newer. So a program that
// shows what Changed events say is right, whatever was lost in between.
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

// Config says where the stream is. HTTP is needed.
type Config struct {
	HTTP client.HTTP
	// Deliveries asks for the deliveries to the user of the token as well (stillhere channel
	// live sends them): changes of users whom that user follows.
	Deliveries bool
	// FirstWait [250ms] is the pause after a connection was lost, which doubles up to MaxWait
	// [15s]. Each is jittered between half and whole.
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

// Kind is what an Event says.
type Kind string

// The kinds of events.
const (
	// Connected: the server has accepted the connection.
	Connected Kind = "connected"
	// Changed: User is newer than what was yielded of that user before.
	Changed Kind = "changed"
	// Delivered: User has changed, and the viewer is told as a follower.
	Delivered Kind = "delivered"
	// Collapsed: the program reads too slowly, and Count changes were left out. The newest of
	// each user follow.
	Collapsed Kind = "collapsed"
	// Refused: the server refused a request of this connection, by Err. When that is
	// not_allowed, User.UserID may not be watched and is watched no more.
	Refused Kind = "refused"
	// Disconnected: the connection was lost, by Err. The next attempt is after RetryIn; until
	// then what was yielded may be out of date.
	Disconnected Kind = "disconnected"
)

// Event is something that the stream said, or that happened to it. Which fields are set
// depends on Kind.
type Event struct {
	Kind    Kind
	User    schemas.Presence
	Count   int
	Err     error // Refused: a *client.ProblemError
	RetryIn time.Duration
}

// Watcher watches users. Add and Remove may be called from any goroutine, also while Events
// runs.
type Watcher struct {
	config  Config
	changed chan struct{} // has room for one

	mu    sync.Mutex // protects users and known
	users []schemas.UserID
	known map[schemas.UserID]schemas.Presence // as yielded
}

// New makes a watcher of users; it does not connect yet. The server bounds how many one
// connection may watch (500 unless set otherwise).
func New(c Config, users ...schemas.UserID) (*Watcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &Watcher{config: c, changed: make(chan struct{}, 1), known: map[schemas.UserID]schemas.Presence{}}
	w.Add(users...)
	return w, nil
}

// Add watches users besides those who are watched already.
func (w *Watcher) Add(users ...schemas.UserID) {
	w.change(func() {
		for _, user := range users {
			if !slices.Contains(w.users, user) {
				w.users = append(w.users, user)
			}
		}
	})
}

// Remove watches users no more. An event of one may still come.
func (w *Watcher) Remove(users ...schemas.UserID) {
	w.change(func() {
		w.users = slices.DeleteFunc(w.users, func(user schemas.UserID) bool { return slices.Contains(users, user) })
		for _, user := range users {
			delete(w.known, user)
		}
	})
}

// Users are those who are watched.
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

// Events connects and yields what happens until ctx ends or the loop is left. An error comes
// last: the server refuses the stream for good, by a *client.ProblemError. Run one loop at a
// time.
func (w *Watcher) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		options := watch.Options{
			URL: strings.TrimRight(w.config.HTTP.URL, "/") + "/presence/stream", Client: w.config.HTTP.Client,
			Current: w.Users, Changed: w.changed, Deliveries: w.config.Deliveries, FirstWait: w.config.FirstWait, MaxWait: w.config.MaxWait,
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

// events are what a message of the stream amounts to.
func (w *Watcher) events(m watch.Message) []Event {
	switch m.Type {
	case watch.Hello:
		return []Event{{Kind: Connected}}
	case watch.Snapshot, watch.Resync:
		return w.newer(m.Users...)
	case watch.Change:
		return w.newer(*m.User)
	case watch.Delivery:
		return []Event{{Kind: Delivered, User: *m.User}}
	case watch.Collapsed:
		return []Event{{Kind: Collapsed, Count: m.Count}}
	case watch.Disconnected:
		return []Event{{Kind: Disconnected, Err: m.Cause, RetryIn: m.RetryIn}}
	case watch.Error:
		event := Event{Kind: Refused, Err: &client.ProblemError{Code: m.Problem.Code, Message: m.Problem.Message, Field: m.Problem.Field}}
		if user, err := schemas.ParseUserID("user_id", m.Problem.UserID); err == nil && m.Problem.Code == "not_allowed" {
			event.User.UserID = user
			w.Remove(user)
		}
		return []Event{event}
	}
	return nil // reconnect: a Disconnected follows
}

// newer are the changes to those of users who are watched.
func (w *Watcher) newer(users ...schemas.Presence) (events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		known, met := w.known[user.UserID]
		same := met && user.Version == known.Version && user.StaleSince == known.StaleSince
		if same || met && known.Newer(user) || !slices.Contains(w.users, user.UserID) {
			continue
		}
		w.known[user.UserID] = user
		events = append(events, Event{Kind: Changed, User: user})
	}
	return events
}
