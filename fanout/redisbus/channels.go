package redisbus

import (
	"context"
	"errors"
	"sync"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// ErrDisconnected says that there is no subscriber connection now.
var ErrDisconnected = errors.New("no subscribing connection to Redis")

// channels is what should be subscribed, what is subscribed, and who waits for it. The goroutines of
// Run move the second towards the first.
type channels struct {
	metrics *fanout.Metrics
	wake    chan struct{} // capacity 1: there is something in dirty

	mu        sync.Mutex // never held while anything blocks
	of        map[schemas.UserID]*channel
	dirty     []schemas.UserID // channels that the sender has to check
	connected bool
	backlog   int // channels wanted when the connection began that are not live yet
}

type channel struct {
	wanted int  // number of subscribers
	sent   bool // the last command sent for it was SUBSCRIBE
	// outstanding counts the SUBSCRIBEs sent and not confirmed. Only the last confirmation means that
	// the channel is live: before it the server may still have to execute an UNSUBSCRIBE of ours.
	outstanding int
	dirty       bool // is in channels.dirty
	backlog     bool // is counted in channels.backlog
	waiters     []*waiter
}

func (c *channel) live() bool { return c.sent && c.outstanding == 0 }

// waiter waits for some channels to be live. Guarded by channels.mu.
type waiter struct {
	left int
	err  error
	done chan struct{} // closed when left is 0 or err is set
}

func newChannels(metrics *fanout.Metrics) *channels {
	return &channels{metrics: metrics, wake: make(chan struct{}, 1), of: make(map[schemas.UserID]*channel)}
}

// Subscribe counts one more subscriber of users and waits until their channels are live: what is
// published from then on is received. An error says that they are not live yet. They will be when
// Receiver.Connected is called next (or soon, when only ctx ended the wait). In both cases each
// Subscribe must be undone by one Unsubscribe.
func (b *Bus) Subscribe(ctx context.Context, users []schemas.UserID) error {
	w := b.wanted.want(users)
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unsubscribe undoes one Subscribe of each of users. A channel without subscribers is unsubscribed.
// It does not block.
func (b *Bus) Unsubscribe(users []schemas.UserID) { b.wanted.unwant(users) }

// Connected reports whether there is a subscriber connection and everything that was wanted when it
// began is subscribed.
func (b *Bus) Connected() bool {
	b.wanted.mu.Lock()
	defer b.wanted.mu.Unlock()
	return b.wanted.connected && b.wanted.backlog == 0
}

func (s *channels) want(users []schemas.UserID) *waiter {
	w := &waiter{done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range users {
		c := s.of[id]
		if c == nil {
			c = &channel{}
			s.of[id] = c
		}
		c.wanted++
		if !s.connected {
			continue // begin will mark all channels
		}
		if !c.sent {
			s.markDirty(id, c)
		}
		if !c.live() {
			w.left++
			c.waiters = append(c.waiters, w)
		}
	}
	switch {
	case !s.connected && len(users) > 0:
		w.err = ErrDisconnected
		close(w.done)
	case w.left == 0:
		close(w.done)
	}
	return w
}

func (s *channels) unwant(users []schemas.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range users {
		c := s.of[id]
		if c == nil || c.wanted == 0 {
			continue
		}
		if c.wanted--; c.wanted > 0 {
			continue
		}
		if s.connected {
			s.markDirty(id, c)
		} else {
			delete(s.of, id)
		}
	}
}

// markDirty makes the sender check the channel. Holds mu.
func (s *channels) markDirty(id schemas.UserID, c *channel) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, id)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin notes a new connection: everything wanted has to be subscribed. It reports whether that is
// nothing.
func (s *channels) begin() (complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected, s.backlog = true, 0
	for id, c := range s.of {
		if c.backlog = c.wanted > 0; c.backlog {
			s.backlog++
		}
		s.markDirty(id, c)
	}
	return s.backlog == 0
}

// lost notes the end of a connection.
func (s *channels) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected, s.dirty = false, nil
	for id, c := range s.of {
		c.sent, c.outstanding, c.backlog, c.dirty = false, 0, false, false
		for _, w := range c.waiters {
			w.fail(ErrDisconnected)
		}
		c.waiters = nil
		if c.wanted == 0 {
			delete(s.of, id)
		}
	}
	s.metrics.Channels.Set(0)
}

// next returns what has to be sent; the sender must send unsubscribe first. complete is true when the
// backlog has become empty, because the last channel in it is not wanted any more.
func (s *channels) next() (subscribe, unsubscribe []schemas.UserID, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.dirty {
		c := s.of[id]
		c.dirty = false
		switch {
		case c.wanted > 0 && !c.sent:
			c.sent = true
			c.outstanding++
			subscribe = append(subscribe, id)
		case c.wanted == 0:
			if c.sent {
				c.sent = false
				unsubscribe = append(unsubscribe, id)
			}
			complete = s.settled(c) || complete
			s.forget(id, c)
		}
	}
	s.dirty = s.dirty[:0]
	s.metrics.Channels.Add(float64(len(subscribe) - len(unsubscribe)))
	return subscribe, unsubscribe, complete
}

// confirmed notes the answer to one SUBSCRIBE; complete as in next.
func (s *channels) confirmed(id schemas.UserID) (complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[id]
	if c == nil || c.outstanding == 0 {
		return false
	}
	if c.outstanding--; c.live() {
		for _, w := range c.waiters {
			w.one()
		}
		c.waiters = nil
		complete = s.settled(c)
	}
	s.forget(id, c)
	return complete
}

// lostByServer reports whether the server unsubscribed a channel that should be live, as it does when
// a slot moves to another server.
func (s *channels) lostByServer(id schemas.UserID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of[id]
	return c != nil && c.live()
}

// settled removes c from the backlog; true when that makes it empty. Holds mu.
func (s *channels) settled(c *channel) bool {
	if !c.backlog {
		return false
	}
	c.backlog = false
	s.backlog--
	return s.backlog == 0
}

// forget removes a channel that nobody wants and of which no answer is expected. Holds mu.
func (s *channels) forget(id schemas.UserID, c *channel) {
	if c.wanted == 0 && !c.sent && c.outstanding == 0 && !c.dirty {
		delete(s.of, id)
	}
}

func (w *waiter) one() {
	if w.left--; w.left == 0 && w.err == nil {
		close(w.done)
	}
}

func (w *waiter) fail(err error) {
	if w.err == nil && w.left > 0 {
		w.err = err
		close(w.done)
	}
}
