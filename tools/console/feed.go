package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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
}

// feedFilter is which changes a client wants; the zero values of user, state and cause are all.
type feedFilter struct {
	audience
	text   bool
	user   schemas.UserID
	state  schemas.State
	causes []schemas.Cause
}

// feedClient is a client of the feed.
type feedClient struct {
	feedFilter
	mu      sync.Mutex
	queue   []*schemas.Transition
	dropped int // since the last take
}

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
		for _, t := range batch.Items {
			if t != nil && c.wants(t) {
				c.put(t)
			}
		}
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

func (c *feedClient) put(t *schemas.Transition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) >= feedQueue {
		c.dropped++
		return
	}
	c.queue = append(c.queue, t)
}

// take takes the oldest changes, at most so many, and how many were dropped behind what was taken last.
func (c *feedClient) take(most int) (changes []*schemas.Transition, dropped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(most, len(c.queue))
	changes = slices.Clone(c.queue[:n])
	c.queue = slices.Delete(c.queue, 0, n)
	dropped, c.dropped = c.dropped, 0
	return changes, dropped
}

// feedRow is a change as it is sent.
type feedRow struct {
	shownUser
	query.Change
	Visibility string `json:"visibility"`
}

func (s *Server) feedRowOf(f *feedFilter, t *schemas.Transition) feedRow {
	r := feedRow{shownUser: s.shown(t.User, t.Name), Change: query.ChangeOf(t), Visibility: schemas.VisibilityWord(t.Visibility)}
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

// feedTo sends to a client until ctx ends.
func (s *Server) feedTo(ctx context.Context, c *feedClient, to *sender) error {
	defer s.feed.hub.add(c)()
	defer s.feed.tail.hold()()
	if _, err := s.feed.tail.await(ctx, loadTimeout); err != nil {
		return err
	}
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
		changes, dropped := c.take(feedRate * int(feedStep/time.Millisecond) / 1000)
		text := ""
		for _, t := range changes {
			row, err := json.Marshal(s.feedRowOf(&c.feedFilter, t))
			if err != nil {
				return err
			}
			text += "event: change\ndata: " + string(row) + "\n\n"
		}
		if dropped > 0 {
			row, _ := json.Marshal(map[string]int{"count": dropped}) // cannot fail
			text += "event: dropped\ndata: " + string(row) + "\n\n"
		}
		switch {
		case text != "":
			quiet = time.Now()
		case time.Since(quiet) < keepAlive:
			continue
		default:
			text, quiet = ":\n\n", time.Now()
		}
		if err := to.write(text); err != nil {
			return err
		}
	}
}
