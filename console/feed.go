package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen/query"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// feedRate is how many changes are sent to a client each second. What does not fit is counted and left out.
	feedRate = 1000
	// feedStep is how often a client is told how many, and that nothing has come for keepAlive.
	feedStep = 500 * time.Millisecond
)

// feedFilter is which changes a client wants; the zero values of user, state and cause are all.
type feedFilter struct {
	audience
	text   bool
	user   schemas.UserID
	state  schemas.State
	causes []schemas.Cause
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

// feed sends one client the changes from when it came on. It reads presence.transitions for it: the log is the queue of
// a client that is slow. Any goroutine may use it.
type feed struct {
	feedFilter
	s   *Server
	end context.CancelFunc // ends the stream

	mu      sync.Mutex // also while something is sent
	to      *sender
	opened  bool
	heard   time.Time // when something was sent
	second  time.Time // when the second began in which sent changes were
	sent    int
	dropped int                           // that the client was not told of
	next    map[int32]stream.StoredOffset // of each partition
}

// Start begins at the end of the log, or goes on.
func (f *feed) Start(_ context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, known := f.next[at.Partition]
	if !known {
		next = stream.StoredOffset{Next: at.LogEnd, Topic: at.TopicID}
		f.next[at.Partition] = next
	}
	return next, nil
}

// Apply sends what the client wants of a batch.
func (f *feed) Apply(_ context.Context, batch stream.Batch[*schemas.Transition]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range batch.Items {
		if t == nil || !f.wants(t) {
			continue
		}
		if now := time.Now(); now.Sub(f.second) >= time.Second {
			f.second, f.sent = now, 0
		}
		if f.sent == feedRate {
			f.dropped++
			continue
		}
		f.sent++
		f.put("change", f.s.feedRowOf(&f.feedFilter, t))
	}
	f.flush()
	f.next[batch.Partition] = stream.StoredOffset{Next: batch.Next, Topic: f.next[batch.Partition].Topic}
	return nil
}

// put sends an event. A client that has left or does not read ends the stream.
func (f *feed) put(event string, value any) {
	f.heard = time.Now()
	if f.to.put(event, value) != nil {
		f.end()
	}
}

func (f *feed) flush() {
	if f.to.flush() != nil {
		f.end()
	}
}

// open says that what is published from now on comes.
func (f *feed) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = true
	f.put("open", struct{}{})
	f.flush()
}

// tell says what was left out, and that the connection lives.
func (f *feed) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.dropped > 0:
		f.put("dropped", map[string]int{"count": f.dropped})
		f.dropped = 0
	case time.Since(f.heard) < keepAlive:
		return
	case f.opened:
		f.put("quiet", struct{}{}) // until when nothing is missing, if the connection is lost
	}
	f.flush()
}

// run sends until ctx ends.
func (f *feed) run(ctx context.Context) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	ctx, f.end = context.WithCancel(ctx)
	defer f.end()
	telling.Go(func() {
		for range tick.Later(ctx, feedStep) {
			f.tell()
		}
	})
	return readTopic(ctx, f.s, "feed", schemas.Transitions, f.s.changeOf, f, f.open)
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
	return t
}

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
	f := &feed{s: s, feedFilter: feedFilter{text: s.Cluster.Users.Text()}, heard: time.Now(), next: map[int32]stream.StoredOffset{}}
	if f.audience, err = s.audienceOf(r); err != nil {
		return nil, err
	}
	if text, given := values["user_id"]; given {
		if f.user, _, err = s.Cluster.Users.User("user_id", f.tenant, text); err != nil {
			return nil, err
		}
	}
	if text, given := values["state"]; given {
		if f.state, err = schemas.ParseState("state", text); err != nil {
			return nil, err
		}
	}
	if text, given := values["cause"]; given {
		for word := range strings.SplitSeq(text, ",") {
			cause, err := schemas.ParseCause("cause", word)
			if err != nil {
				return nil, err
			}
			f.causes = append(f.causes, cause)
		}
	}
	return func(ctx context.Context, to *sender) error {
		f.to = to
		return f.run(ctx)
	}, nil
}
