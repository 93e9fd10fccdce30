package canary

import (
	"context"
	"errors"
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
	s := &stream{config: watch.Config{HTTP: c.Reads, Tenant: c.User.Name.Tenant, MaxWait: c.Timeout, FirstWait: min(c.Timeout, 250*time.Millisecond)},
		users: []User{c.User, c.Silent}, changes: map[string]chan change{}, log: c.Logger, err: errors.New("not connected yet")}
	for _, user := range s.users {
		s.changes[user.key()] = make(chan change, maxChanges)
	}
	return s
}

// run watches until ctx ends. A refusal for good, such as that of a token, is tried again as well.
func (s *stream) run(ctx context.Context) error {
	for ctx.Err() == nil {
		watcher, err := watch.New(s.config, s.users[0].key(), s.users[1].key())
		if err != nil {
			return err
		}
		for event, err := range watcher.Events(ctx) {
			s.took(event, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.config.MaxWait):
		}
	}
	return nil
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

func (s *stream) changed(user schemas.User) {
	version, err := strconv.ParseInt(user.Version, 10, 64)
	if err != nil || user.State == nil {
		s.log.Warn("the stream does not show the state of the canary's user: is it hidden, or may the token not watch it?",
			"user", user.UserID)
		return
	}
	state, err := schemas.ParseState("state", *user.State)
	if err != nil {
		return
	}
	waiting, ok := s.changes[user.UserID]
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
