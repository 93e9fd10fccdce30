package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// maxRequests is how many requests of one viewer may wait; the next one blocks the
// reading of that connection.
const maxRequests = 16

var (
	errTooSlow     = errors.New("reading too slowly")
	errStopping    = errors.New("the server is stopping")
	errUnavailable = errors.New("the state cannot be read now")
	errNotAllowed  = errors.New("not allowed to watch")
)

// viewer is one connection, without its transport. Requests are handled and
// messages sent by one goroutine, which exists only while there is something to do,
// so that an idle viewer costs no stack.
type viewer struct {
	hub *hub
	who schemas.UserID // 0: nobody known
	// exempt is set, before the first request, of who may watch everybody.
	exempt bool
	// send writes one message; nil stands for a sign of life. It may block up to the
	// write timeout and is called by one goroutine at a time.
	send func(message []byte) error
	// offer sends a change as far as that needs no waiting, and gives back what has to
	// be called for the rest, if any; see socket.Conn.Offer. nil where the transport
	// cannot do that.
	offer func(*state) (finish func() error, err error)
	// retryIn says after what time the client, which comes back by itself, is to do so; nil
	// where clients heed messages alone.
	retryIn func(after time.Duration) error
	// fail is told, once, why the viewer ended itself; nil where the transport cannot
	// be closed from here: then a slow viewer is only collapsed. Called by the
	// viewer's goroutine; it must not call close.
	fail func(reason error)

	// Owned by work; after it, by close.
	subs         map[schemas.UserID]*sub
	asking       *rate.Limiter // nil until the first subscribe
	recheckTimer *time.Timer   // asks again whether the viewer may watch; nil: nothing to ask

	mu         sync.Mutex // never held while anything blocks
	requests   []request
	queue      queue
	deliveries *deliveryQueue // deliveries that wait; nil: the viewer is told of none
	collapsed  int            // left out and not told yet
	behind     time.Time      // when the queue first collapsed since it was last empty
	tooSlow    bool
	working    bool               // work is running
	ended      bool               // nothing is taken in any more
	stopped    chan struct{}      // closed when work has ended; made by close
	interrupt  context.CancelFunc // ends the request in hand
	emptySince time.Time          // watches nobody since; zero while it watches

	space chan struct{} // capacity 1: a request was taken
	once  sync.Once
}

func (h *hub) newViewer(who schemas.UserID, send func([]byte) error, fail func(error)) *viewer {
	return &viewer{hub: h, who: who, send: send, fail: fail, subs: make(map[schemas.UserID]*sub),
		space: make(chan struct{}, 1), emptySince: time.Now()}
}

// submit hands over a request and waits while too many are waiting. One goroutine at
// a time may call it.
func (v *viewer) submit(r request) {
	v.mu.Lock()
	for len(v.requests) >= maxRequests && !v.ended {
		v.mu.Unlock()
		<-v.space
		v.mu.Lock()
	}
	v.mu.Unlock()
	v.post(r)
}

// post hands over a request of the server's own. It never blocks.
func (v *viewer) post(r request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		return
	}
	v.requests = append(v.requests, r)
	v.start()
}

// start has work running. Holds mu.
func (v *viewer) start() {
	if !v.working && !v.ended {
		v.working = true
		go v.work()
	}
}

// pushChange queues a change; false when the viewer has heard of it. resting says that
// nobody works for the viewer and the caller has to have it done, by deliver.
func (v *viewer) pushChange(s *sub, st *state) (pushed, resting bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !s.live || st.version <= s.last || !v.push(queued{sub: s, state: st}) {
		return false, false
	}
	if v.offer == nil {
		v.start()
		return true, false
	}
	resting = !v.working
	v.working = true
	return true, resting
}

// pushCorrection queues what a later read found, if the viewer was told otherwise.
// fixed says that it differs from the same version told before.
func (v *viewer) pushCorrection(s *sub, st *state, fixed bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !s.live || st.version < s.last || st.version == s.last && !fixed && s.stale == st.stale() {
		return false
	}
	if !v.push(queued{sub: s, state: st, resync: true}) {
		return false
	}
	v.start()
	return true
}

// push queues item; false when the viewer has ended. Holds mu.
func (v *viewer) push(item queued) bool {
	if v.ended {
		return false
	}
	item.sub.last, item.sub.stale = item.state.version, item.state.stale()
	v.leftOut(v.queue.push(item, v.hub.cfg.QueueLength))
	return true
}

// leftOut counts what a collapse has left out. Holds mu.
func (v *viewer) leftOut(n int) {
	if n == 0 {
		return
	}
	v.collapsed += n
	v.hub.metrics.Collapsed.Add(float64(n))
	now := time.Now()
	if v.behind.IsZero() {
		v.behind = now
	}
	v.tooSlow = v.fail != nil && now.Sub(v.behind) > v.hub.cfg.SlowFor
}

// work does what there is to do and ends.
func (v *viewer) work() {
	for {
		step := v.next()
		if step == nil {
			return
		}
		if err := step(); err != nil {
			v.end(err)
			return
		}
	}
}

// next chooses what to do: answer requests first, then say what was left out, then
// changes. Nil: nothing, and work has to end.
func (v *viewer) next() func() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.ended:
		v.rest()
		return nil
	case len(v.requests) > 0:
		r := v.requests[0]
		if v.requests = v.requests[1:]; len(v.requests) == 0 {
			v.requests = nil
		}
		v.signalSpace()
		return func() error { return v.do(r) }
	case v.tooSlow:
		return func() error {
			// Whether or not it can be told, it is closed.
			_ = v.sendError(&schemas.FieldError{Code: "too_slow", Reason: "reading too slowly for too long"})
			return errTooSlow
		}
	case v.collapsed > 0:
		message := collapsedMessage(v.collapsed)
		v.collapsed = 0
		return func() error { return v.send(message) }
	}
	item, ok := v.queue.pop()
	if !ok {
		if st := v.deliveries.pop(); st != nil {
			return func() error { return v.send(st.change) }
		}
		v.behind = time.Time{}
		v.rest()
		return nil
	}
	if !item.resync {
		return func() error { return v.send(item.state.change) }
	}
	users := []*state{item.state}
	for len(users) < v.hub.cfg.MaxSubscriptions && v.queue.peekResync() {
		if item, ok := v.queue.pop(); ok && item.resync {
			users = append(users, item.state)
		} else if ok {
			// The correction looked at was not wanted any more, and a change came after it.
			change := item.state.change
			return func() error { return errors.Join(v.send(usersMessage("resync", users)), v.send(change)) }
		}
	}
	return func() error { return v.send(usersMessage("resync", users)) }
}

// rest notes that work ends. Holds mu.
func (v *viewer) rest() {
	v.working = false
	if v.stopped != nil {
		close(v.stopped)
	}
}

func (v *viewer) signalSpace() {
	select {
	case v.space <- struct{}{}:
	default:
	}
}

func (v *viewer) watches(users int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case users > 0:
		v.emptySince = time.Time{}
	case v.emptySince.IsZero():
		v.emptySince = time.Now()
	}
}

// idleFor is how long the viewer has watched nobody; 0 while there is something to
// do for it, so that nobody is closed before hearing what is on its way.
func (v *viewer) idleFor() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.emptySince.IsZero() || v.working || v.deliveries != nil {
		return 0
	}
	return time.Since(v.emptySince)
}
