package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/internal/connect"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

// Watcher watches users. Any goroutine may call Add, Remove and Users, also while Events runs.
type Watcher struct {
	config  Config
	changed chan struct{} // buffered, for one signal
	behind  bool          // the connection was lost, and what was missed has not come; owned by Events
	// unsure are the users who were unsure or stale when the connection was lost. Those who still are come again
	// before the stream is resumed. Owned by Events.
	unsure map[string]bool

	mu     sync.Mutex // protects users, wanted and known
	users  []string
	wanted map[string]bool         // those of users
	known  map[string]schemas.User // as yielded
}

// New makes a watcher of users; Events connects it. The server bounds how many users one connection
// may watch (500 by default). Errors are those of Validate and Add.
func New(c Config, users ...string) (*Watcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	w := &Watcher{config: c, changed: make(chan struct{}, 1), wanted: map[string]bool{}, known: map[string]schemas.User{}}
	if err := w.Add(users...); err != nil {
		return nil, err
	}
	return w, nil
}

// Add watches further users. If one cannot be a name, it watches none of them, and the error, a
// *schemas.FieldError, says which.
func (w *Watcher) Add(users ...string) error {
	for i, user := range users {
		if err := schemas.CheckName(fmt.Sprintf("users[%d]", i), user); err != nil {
			return err
		}
	}
	w.change(func() {
		for _, user := range users {
			if !w.wanted[user] {
				w.wanted[user] = true
				w.users = append(w.users, user)
			}
		}
	})
	return nil
}

// Remove stops watching users. An event of one may still come.
func (w *Watcher) Remove(users ...string) {
	w.change(func() {
		for _, user := range users {
			delete(w.known, user)
			delete(w.wanted, user)
		}
		w.users = slices.DeleteFunc(w.users, func(user string) bool { return !w.wanted[user] })
	})
}

// Users returns the watched users.
func (w *Watcher) Users() []string {
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
	options := watch.Options{URL: strings.TrimRight(w.config.HTTP.URL, "/") + "/presence/stream", Tenant: w.config.Tenant,
		Client: w.config.HTTP.Client, Deliveries: w.config.Deliveries, Resume: true, FirstWait: w.config.FirstWait, MaxWait: w.config.MaxWait,
		Current: w.Users, Changed: w.changed,
		Authorize: func(ctx context.Context) (http.Header, error) { return connect.Header(ctx, w.config.HTTP) }}
	return func(yield func(Event, error) bool) {
		for message, err := range watch.Messages(ctx, options) {
			if refused := (*watch.Refused)(nil); errors.As(err, &refused) {
				err = client.ProblemOf(refused.Status, refused.Header, refused.Body)
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
		w.unsure = map[string]bool{}
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
		if p.Code == "not_allowed" && p.UserID != "" {
			event.User = schemas.User{UserID: p.UserID, Tenant: w.config.Tenant}
			w.Remove(p.UserID)
		}
		return []Event{event}
	}
	return nil // reconnect: a Disconnected follows
}

// newer are the events of those watched users who are newer, or stale or unsure unlike before.
func (w *Watcher) newer(users ...schemas.User) (events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		delete(w.unsure, user.UserID)
		known, yielded := w.known[user.UserID]
		same := yielded && user.Version == known.Version && user.StaleSince == known.StaleSince &&
			user.UnsureSince == known.UnsureSince
		if same || yielded && known.Newer(user.Presence) || !w.wanted[user.UserID] {
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
