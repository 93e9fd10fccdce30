package live

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// maxRequests is how many requests of one viewer may wait. A further one blocks the reading of that
// connection.
const maxRequests = 16

// Why the server ends a viewer, and why a subscribe fails.
var (
	errTooSlow     = errors.New("reading too slowly")
	errStopping    = errors.New("the server is stopping")
	errEnded       = errors.New("the token has ended")
	errIdle        = errors.New("watching nobody for too long")
	errUnavailable = errors.New("the state cannot be read now")
	errNotAllowed  = errors.New("not allowed to watch")
)

// viewer is one connection, without its transport. One goroutine handles requests and sends
// messages. It exists only while there is something to do, so an idle viewer needs no stack.
type viewer struct {
	hub *hub
	who schemas.UserID // 0: unknown
	// name is what the viewer is called, if it is not the number; nil if unknown. Set before the first request.
	name *schemas.Name
	// exempt says that MayWatch is not asked. Set before the first request.
	exempt bool
	// send writes one message; nil is a keep-alive. It may block up to the write timeout. One
	// goroutine at a time calls it.
	send func(message []byte) error
	// sendEvent writes a message as an event with an id. nil where messages are no events.
	sendEvent func(id string, message []byte) error
	// offer sends a change as far as that does not block, and returns what sends the rest, if any;
	// see socket.Conn.Offer. nil where the transport cannot do that.
	offer func(*state) (finish func() error, err error)
	// retryIn sets when a client that reconnects by itself does so. nil where clients follow
	// messages alone.
	retryIn func(after time.Duration) error
	// fail closes the transport; it is called once, with the reason for which the viewer ended
	// itself, by the viewer's goroutine, and must not call close. nil where the transport belongs to
	// others: a slow viewer then is only collapsed.
	fail func(reason error)

	tenant  string                           // of the users
	greeted atomic.Pointer[schemas.Schedule] // of the last hello; nil: none was sent

	// Owned by work; after it, by close.
	subs         map[schemas.UserID]*sub
	called       map[schemas.UserID]*schemas.Name // of the subscribe in progress
	trail        *trail                           // nil: messages carry no cursors
	asking       *rate.Limiter                    // nil until the first subscribe
	recheckTimer *time.Timer                      // nil: no recheck is planned
	counted      int                              // subscriptions that account counts; at least len(subs)

	// account is that of the tenant whose users it watches; nil: none. Set before the first request.
	account *tenants.Account

	mu         sync.Mutex // never held while anything blocks
	requests   []request
	queue      queue
	deliveries *deliveryQueue // nil: the viewer gets no deliveries
	collapsed  int            // dropped changes that were not reported to the viewer yet
	behind     time.Time      // when the queue first collapsed since it was last empty
	tooSlow    bool
	working    bool               // work is running
	ended      bool               // requests and changes are dropped
	stopped    chan struct{}      // closed when work has ended; made by close
	interrupt  context.CancelFunc // ends the request in progress
	emptySince time.Time          // watches nobody since; zero while it watches

	space chan struct{} // capacity 1: a request was taken
	once  sync.Once
}

func (h *hub) newViewer(who schemas.UserID, send func([]byte) error, fail func(error)) *viewer {
	return &viewer{hub: h, who: who, send: send, fail: fail, subs: make(map[schemas.UserID]*sub),
		space: make(chan struct{}, 1), emptySince: time.Now()}
}

// submit hands over a request and blocks while too many wait. One goroutine at a time may call it.
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

// pushChange queues a change. pushed is false when the viewer has this version or a newer one.
// resting says that nobody works for the viewer and the caller has to pass it to serve.
func (v *viewer) pushChange(s *sub, st *state) (pushed, resting bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !s.live || st.version <= s.last || !v.push(queued{sub: s, state: st}) {
		return false, false
	}
	return true, v.startOrRest()
}

// pushCorrection queues what a later read found if the viewer was sent another state. fixed says
// that it differs at the same version.
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

// push queues item; false when the viewer has ended, or may be denied the user. Holds the shard and mu.
func (v *viewer) push(item queued) bool {
	if v.ended || item.sub.withheld() {
		return false
	}
	item.sub.last, item.sub.stale = item.state.version, item.state.stale()
	v.countCollapsed(v.queue.push(item, v.hub.limits.Load().QueueLength))
	return true
}

// pushDelivery queues a delivery; resting as in pushChange.
func (v *viewer) pushDelivery(user schemas.UserID, st *state) (resting bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended || v.deliveries == nil {
		return false
	}
	v.countCollapsed(v.deliveries.push(queuedDelivery{user, st}, v.hub.limits.Load().QueueLength))
	return v.startOrRest()
}

// countCollapsed counts what a collapse has dropped. Holds mu.
func (v *viewer) countCollapsed(n int) {
	if n == 0 {
		return
	}
	v.collapsed += n
	v.hub.Metrics.Collapsed.Add(float64(n))
	now := time.Now()
	if v.behind.IsZero() {
		v.behind = now
	}
	v.tooSlow = v.fail != nil && now.Sub(v.behind) > v.hub.cfg.SlowFor
}

// setWatched notes how many users the viewer watches.
func (v *viewer) setWatched(users int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case users > 0:
		v.emptySince = time.Time{}
	case v.emptySince.IsZero():
		v.emptySince = time.Now()
	}
}

// idleFor returns how long the viewer has watched nobody. It is 0 while there is something to do for
// the viewer, so that it is not closed before it has received what is queued.
func (v *viewer) idleFor() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.emptySince.IsZero() || v.working || v.deliveries != nil {
		return 0
	}
	return time.Since(v.emptySince)
}
