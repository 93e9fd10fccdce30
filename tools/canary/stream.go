package canary

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/schemas"
)

// change is a change of a user as the stream has shown it.
type change struct {
	state   schemas.State
	version schemas.Version
	at      time.Time // when it arrived
}

// maxChanges is how many changes of a user wait for its walk; a round has at most three.
const maxChanges = 64

// stream watches the users and passes their changes to the walks.
type stream struct {
	config  watch.Config
	users   []User
	changes map[string]chan change // by User.key; never changed
	log     *slog.Logger

	mu  sync.Mutex // protects err
	err error      // why the stream is not connected; nil: it is
}

func newStream(c Config) *stream {
	s := &stream{config: watch.Config{HTTP: c.Reads, MaxWait: c.Timeout, FirstWait: min(c.Timeout, 250*time.Millisecond)},
		users: []User{c.User, c.Silent}, changes: map[string]chan change{}, log: c.Logger, err: errors.New("not connected yet")}
	for _, user := range s.users {
		s.changes[user.key()] = make(chan change, maxChanges)
	}
	return s
}

// run watches until ctx ends. A refusal for good, such as that of a token, is tried again as well.
func (s *stream) run(ctx context.Context) error {
	for ctx.Err() == nil {
		events, err := s.events(ctx)
		if err != nil {
			return err
		}
		for event, err := range events {
			s.took(event, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.config.MaxWait):
		}
	}
	return nil
}

// events are those of a new connection.
func (s *stream) events(ctx context.Context) (iter.Seq2[watch.Event, error], error) {
	first := s.users[0]
	if !first.named() {
		watcher, err := watch.New(s.config, first.ID, s.users[1].ID)
		if err != nil {
			return nil, err
		}
		return watcher.Events(ctx), nil
	}
	watcher, err := watch.NewNamed(s.config, first.Name.Tenant, first.Name.Text, s.users[1].Name.Text)
	if err != nil {
		return nil, err
	}
	return watcher.Events(ctx), nil
}

func (s *stream) took(event watch.Event, err error) {
	switch {
	case err != nil:
		s.connected(err)
	case event.Kind == watch.Disconnected, event.Kind == watch.Refused:
		s.connected(event.Err)
	case event.Kind == watch.Connected:
		s.connected(nil)
	case event.Kind == watch.Changed:
		s.connected(nil)
		s.changed(event.User)
	}
}

func (s *stream) changed(user schemas.Presence) {
	called := User{ID: user.UserID}
	if user.Name != nil {
		called.Name = *user.Name
	}
	version, err := strconv.ParseInt(user.Version, 10, 64)
	if err != nil || user.State == nil {
		s.log.Warn("the stream does not show the state of the canary's user: is it hidden, or may the token not watch it?",
			"user", called.String())
		return
	}
	state, err := schemas.ParseState("state", *user.State)
	if err != nil {
		return
	}
	waiting, ok := s.changes[called.key()]
	for now := (change{state, schemas.Version(version), time.Now()}); ok; {
		select {
		case waiting <- now:
			return
		default:
		}
		select {
		case <-waiting: // drop the oldest
		default:
		}
	}
}

func (s *stream) connected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// fault is why the stream is not connected; nil: it is.
func (s *stream) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
