package watch

import (
	"context"
	"errors"
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

// naming says what a watcher calls users: K is an id, or a name within the tenant of the stream.
type naming[K comparable] struct {
	of    func(schemas.Presence) K
	texts func([]K) []string // as requests name them; it may return its argument
	// parse reads what a problem calls a user, and makes the Presence that names it.
	parse func(text string) (K, schemas.Presence, error)
}

// core watches users whom it calls K.
type core[K comparable] struct {
	config  Config
	options watch.Options
	naming  naming[K]
	changed chan struct{} // buffered, for one signal
	behind  bool          // the connection was lost, and what was missed has not come; owned by run
	// unsure are the users who were unsure or stale when the connection was lost. Those who still are come again
	// before the stream is resumed. Owned by run.
	unsure map[K]bool

	mu     sync.Mutex // protects users, wanted and known
	users  []K
	wanted map[K]bool             // those of users
	known  map[K]schemas.Presence // as yielded
}

// newCore makes a watcher of nobody. base has what is not of every stream; the rest is added.
func newCore[K comparable](c Config, base watch.Options, n naming[K]) *core[K] {
	w := &core[K]{config: c, options: base, naming: n, changed: make(chan struct{}, 1), wanted: map[K]bool{},
		known: map[K]schemas.Presence{}}
	w.options.URL = strings.TrimRight(c.HTTP.URL, "/") + "/presence/stream" + base.URL
	w.options.Client, w.options.Deliveries, w.options.Resume = c.HTTP.Client, c.Deliveries, true
	w.options.FirstWait, w.options.MaxWait = c.FirstWait, c.MaxWait
	w.options.Current, w.options.Changed = func() []string { return n.texts(w.all()) }, w.changed
	w.options.Authorize = func(ctx context.Context) (http.Header, error) { return connect.Header(ctx, c.HTTP) }
	return w
}

func (w *core[K]) add(users []K) {
	w.change(func() {
		for _, user := range users {
			if !w.wanted[user] {
				w.wanted[user] = true
				w.users = append(w.users, user)
			}
		}
	})
}

func (w *core[K]) remove(users []K) {
	w.change(func() {
		for _, user := range users {
			delete(w.known, user)
			delete(w.wanted, user)
		}
		w.users = slices.DeleteFunc(w.users, func(user K) bool { return !w.wanted[user] })
	})
}

func (w *core[K]) all() []K {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.users)
}

func (w *core[K]) change(do func()) {
	w.mu.Lock()
	do()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *core[K]) run(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for message, err := range watch.Messages(ctx, w.options) {
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
func (w *core[K]) events(m watch.Message) []Event {
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
		w.unsure = map[K]bool{}
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
		if user, shown, err := w.naming.parse(p.UserID); err == nil && p.Code == "not_allowed" {
			event.User = shown
			w.remove([]K{user})
		}
		return []Event{event}
	}
	return nil // reconnect: a Disconnected follows
}

// newer are the events of those watched users who are newer, or stale or unsure unlike before.
func (w *core[K]) newer(users ...schemas.Presence) (events []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, user := range users {
		key := w.naming.of(user)
		delete(w.unsure, key)
		known, yielded := w.known[key]
		same := yielded && user.Version == known.Version && user.StaleSince == known.StaleSince &&
			user.UnsureSince == known.UnsureSince
		if same || yielded && known.Newer(user) || !w.wanted[key] {
			continue
		}
		w.known[key] = user
		events = append(events, Event{Kind: Changed, User: user})
	}
	return events
}

// sure are the events of those who were unsure or stale when the connection was lost, and no longer are.
func (w *core[K]) sure() (events []Event) {
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
