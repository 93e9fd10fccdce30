package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// feedRate is how many changes are sent to a client each second, feedStep how often some are sent.
	feedRate = 1000
	feedStep = 100 * time.Millisecond
	// feedQueue bounds the changes that wait for a client. What does not fit is counted and left out.
	feedQueue = 1000
)

// feedHub gives changes to clients. Any goroutine may use it.
type feedHub struct {
	mu      sync.Mutex // never held while anything blocks
	clients map[*feedClient]struct{}
	topic   schemas.TopicID
	next    []int64 // of each partition, the offset after the last record that was given
}

// feedFilter is which changes a client wants; the zero values of user, state and cause are all.
type feedFilter struct {
	audience
	text   bool
	user   schemas.UserID
	state  schemas.State
	causes []schemas.Cause
}

// feedClient is a client of the feed. It begins with what comes: a page that comes again says itself that
// changes are missing.
type feedClient struct {
	feedFilter

	mu      sync.Mutex
	queue   []*schemas.Transition
	dropped int  // since the last take
	ended   bool // the hub lost its place in the log
}

// Start begins at the end of the log, or goes on.
func (h *feedHub) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topic != at.TopicID || len(h.next) != int(at.Partitions) {
		h.forget()
		h.topic, h.next = at.TopicID, slices.Repeat([]int64{-1}, int(at.Partitions))
	}
	if h.next[at.Partition] < 0 {
		h.next[at.Partition] = at.LogEnd
	}
	return stream.StoredOffset{Next: h.next[at.Partition], Topic: at.TopicID}, nil
}

// reset forgets the place in the log.
func (h *feedHub) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
}

// forget ends what is given to the clients: they come again.
func (h *feedHub) forget() {
	h.next = nil
	for c := range h.clients {
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
	}
}

// add gives the client what comes from now on.
func (h *feedHub) add(c *feedClient) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients == nil {
		h.clients = map[*feedClient]struct{}{}
	}
	h.clients[c] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.clients, c)
	}
}

// Apply gives a batch of presence.transitions to the clients.
func (h *feedHub) Apply(_ context.Context, batch stream.Batch[*schemas.Transition]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		c.put(batch)
	}
	if int(batch.Partition) < len(h.next) {
		h.next[batch.Partition] = batch.Next
	}
	return nil
}

// wants reports whether the client may see a change, and asks for it.
func (f *feedFilter) wants(t *schemas.Transition) bool {
	switch {
	case f.text && !f.has(t.Name):
		return false
	case t.Visibility == schemas.Nobody && t.Cause != schemas.VisibilityChange && !f.admin:
		return false // of a hidden user others see the hide alone
	case f.conceals(t) && f.state != 0:
		return false
	case f.user != 0 && t.User != f.user, f.state != 0 && t.To != f.state:
		return false
	}
	return len(f.causes) == 0 || slices.Contains(f.causes, t.Cause)
}

// conceals reports whether a change is a hide of which the client may see nothing else.
func (f *feedFilter) conceals(t *schemas.Transition) bool {
	return t.Visibility == schemas.Nobody && !f.admin
}

// changeOf reads a record of presence.transitions; nil if the detector cannot have written it.
func (s *Server) changeOf(r *schemas.Record) *schemas.Transition {
	t, err := schemas.DecodeTransition(r.Value)
	if err != nil {
		return nil
	}
	if _, err := s.Origin.Decode(r); schemas.IsInvalid(err) {
		return nil
	}
	t.Name.Text, t.Name.Tenant = strings.Clone(t.Name.Text), strings.Clone(t.Name.Tenant)
	return t
}

// put queues what the client wants of a batch.
func (c *feedClient) put(batch stream.Batch[*schemas.Transition]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range batch.Items {
		switch {
		case t == nil || !c.wants(t):
		case len(c.queue) >= feedQueue:
			c.dropped++
		default:
			c.queue = append(c.queue, t)
		}
	}
}

// take takes the oldest changes, at most so many, and how many were dropped after them.
func (c *feedClient) take(most int) (changes []*schemas.Transition, dropped int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(most, len(c.queue))
	changes = slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	dropped, c.dropped = c.dropped, 0
	if c.ended && len(c.queue) == 0 {
		err = errFeedEnded
	}
	return changes, dropped, err
}

// errFeedEnded ends a stream whose place in the log is not known any more.
var errFeedEnded = errors.New("reading the changes has to begin again")

// feedRow is a change as it is sent.
type feedRow struct {
	schemas.NamedUser
	query.Change
	Visibility string `json:"visibility"`
}

func (s *Server) feedRowOf(f *feedFilter, t *schemas.Transition) feedRow {
	r := feedRow{NamedUser: s.shown(t.User, t.Name), Change: query.ChangeOf(t), Visibility: schemas.VisibilityWord(t.Visibility)}
	if f.conceals(t) {
		r.From, r.To, r.Devices, r.LastSeenAt, r.LastActiveAt, r.DeviceID = hiddenWord, hiddenWord, nil, 0, 0, nil
	}
	return r
}

// streamFeed sends the changes of all users, or of those that the parameters select.
func (s *Server) streamFeed(r *http.Request) (func(context.Context, *sender) error, error) {
	values, err := parameters(r, "user_id", "state", "cause")
	if err != nil {
		return nil, err
	}
	c := &feedClient{feedFilter: feedFilter{text: s.Cluster.Users.Text()}}
	if c.audience, err = s.audienceOf(r); err != nil {
		return nil, err
	}
	if text, given := values["user_id"]; given {
		if c.user, _, err = s.Cluster.Users.User("user_id", c.tenant, text); err != nil {
			return nil, err
		}
	}
	if text, given := values["state"]; given {
		if c.state = stateOf(text); c.state == 0 {
			return nil, schemas.Invalid("state", "must be online, away or offline")
		}
	}
	if text, given := values["cause"]; given {
		for word := range strings.SplitSeq(text, ",") {
			cause, err := store.ParseCause(word)
			if err != nil {
				return nil, schemas.Invalid("cause", "must be causes, as a history has them, separated by commas")
			}
			c.causes = append(c.causes, cause)
		}
	}
	return func(ctx context.Context, to *sender) error { return s.feedTo(ctx, c, to) }, nil
}

func stateOf(word string) schemas.State {
	for _, state := range []schemas.State{schemas.Online, schemas.Away, schemas.Offline} {
		if schemas.StateWord(state) == word {
			return state
		}
	}
	return 0
}

// enter waits until the log is read, and makes the client one of the hub.
func (s *Server) enter(ctx context.Context, c *feedClient, to *sender) (leave func(), err error) {
	for {
		loaded, err := s.feed.tail.await(ctx, loadTimeout)
		switch {
		case err != nil:
			return nil, err
		case loaded:
			return s.feed.hub.add(c), nil
		}
		if err := to.idle(); err != nil {
			return nil, err
		}
		if !kafka.Pause(ctx, readyPause) {
			return nil, ctx.Err()
		}
	}
}

// feedTo sends to a client until ctx ends.
func (s *Server) feedTo(ctx context.Context, c *feedClient, to *sender) error {
	defer s.feed.tail.hold()()
	leave, err := s.enter(ctx, c, to)
	if err != nil {
		return err
	}
	defer leave()
	if err := to.send("open", struct{}{}); err != nil {
		return err
	}
	ticker := time.NewTicker(feedStep)
	defer ticker.Stop()
	quiet := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		changes, dropped, ended := c.take(feedRate * int(feedStep/time.Millisecond) / 1000)
		for _, t := range changes {
			if err := to.put("change", s.feedRowOf(&c.feedFilter, t)); err != nil {
				return err
			}
		}
		if dropped > 0 {
			if err := to.put("dropped", map[string]int{"count": dropped}); err != nil {
				return err
			}
		}
		switch sent := len(changes) + dropped; {
		case sent > 0:
			quiet, err = time.Now(), to.flush()
		case ended != nil:
			err = ended
		case time.Since(quiet) >= keepAlive:
			quiet, err = time.Now(), to.send("quiet", struct{}{}) // until when nothing is missing, if the connection is lost
		}
		if err != nil {
			return err
		}
	}
}
