package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/stream"
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

// shows is what the client may see of a change; false: nothing, or it has not asked for it.
func (f *feedFilter) shows(t *schemas.Transition) (*schemas.Transition, bool) {
	seen := !f.text || f.has(t.Name)
	switch {
	case !seen || f.admin:
	case f.offline:
		t, seen = shown.AsIfOffline(t)
	default:
		t, seen = shown.AsNull(t)
	}
	switch {
	case !seen, !f.admin && t.Cause == schemas.AudienceSet, f.conceals(t) && f.state != 0, f.user != 0 && t.User != f.user, f.state != 0 && t.To != f.state:
		return nil, false
	}
	return t, len(f.causes) == 0 || slices.Contains(f.causes, t.Cause)
}

// conceals reports whether a change is a hide of which the client may see nothing else.
func (f *feedFilter) conceals(t *schemas.Transition) bool {
	return t.Visibility == schemas.Nobody && !f.admin
}

// feed sends one client the changes from when it came on. It reads presence.transitions for it: the log is the queue of
// a client that is slow.
type feed struct {
	feedFilter
	s       *Server
	to      *sender
	batches chan []*schemas.Transition // from the workers of the partitions to run
	loaded  chan struct{}              // closed when what is published from now on comes

	// What follows is run's.
	opened  bool
	heard   time.Time // when something was sent
	second  time.Time // when the second began in which sent changes were
	sent    int
	dropped int // that the client was not told of

	mu   sync.Mutex
	next map[int32]stream.StoredOffset // of each partition
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

// Apply waits until run takes the batch.
func (f *feed) Apply(ctx context.Context, batch stream.Batch[*schemas.Transition]) error {
	select {
	case f.batches <- batch.Items:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[batch.Partition] = stream.StoredOffset{Next: batch.Next, Topic: f.next[batch.Partition].Topic}
	return nil
}

// run sends until ctx ends, or the client has left or does not read.
func (f *feed) run(ctx context.Context) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	reading.Go(func() {
		ended <- readTopic(ctx, f.s, "feed", schemas.Transitions, f.s.changeOf, f, func() { close(f.loaded) })
	})
	step := time.NewTicker(feedStep)
	defer step.Stop()
	for loaded := f.loaded; ; {
		var err error
		select {
		case changes := <-f.batches:
			err = f.send(changes)
		case <-loaded:
			loaded, f.opened, f.heard = nil, true, time.Now()
			err = f.to.send("open", struct{}{})
		case <-step.C:
			err = f.tell()
		case err := <-ended:
			return err
		}
		if err != nil {
			return nil
		}
	}
}

// send sends what the client wants of a batch.
func (f *feed) send(changes []*schemas.Transition) error {
	for _, t := range changes {
		if t == nil {
			continue
		}
		t, seen := f.shows(t)
		if !seen {
			continue
		}
		if f.heard = time.Now(); f.heard.Sub(f.second) >= time.Second {
			f.second, f.sent = f.heard, 0
		}
		if f.sent == feedRate {
			f.dropped++
			continue
		}
		f.sent++
		if err := f.to.put("change", f.s.feedRowOf(&f.feedFilter, t)); err != nil {
			return err
		}
	}
	return f.to.flush()
}

// tell says what was left out, and that the connection lives.
func (f *feed) tell() error {
	switch {
	case f.dropped > 0:
		dropped := f.dropped
		f.dropped, f.heard = 0, time.Now()
		return f.to.send("dropped", map[string]int{"count": dropped})
	case f.opened && time.Since(f.heard) >= keepAlive:
		f.heard = time.Now()
		return f.to.send("quiet", struct{}{}) // until when nothing is missing, if the connection is lost
	}
	return nil
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
	if !f.admin && (t.Override.LastSeen != 0 || s.coarse(t.Name.Tenant)) {
		r.LastSeenAt, r.LastActiveAt = 0, 0
	}
	if f.conceals(t) {
		r.From, r.To, r.Devices, r.Kinds = hiddenWord, hiddenWord, nil, nil
		r.LastSeenAt, r.LastActiveAt, r.DeviceID = 0, 0, nil
	}
	return r
}

// streamFeed sends the changes of all users, or of those that the parameters select.
func (s *Server) streamFeed(r *http.Request) (func(context.Context, *sender) error, error) {
	values, err := parameters(r, "user_id", "state", "cause")
	if err != nil {
		return nil, err
	}
	f := &feed{s: s, feedFilter: feedFilter{text: s.Cluster.Users.Text()}, batches: make(chan []*schemas.Transition),
		loaded: make(chan struct{}), heard: time.Now(), next: map[int32]stream.StoredOffset{}}
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
