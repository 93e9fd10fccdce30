package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// do handles one request. An error ends the viewer.
func (v *viewer) do(r request) error {
	switch r.kind {
	case subscribe:
		defer v.settleCount()
		err := v.subscribe(r)
		switch refused := errors.Is(err, errNotAllowed); {
		case !r.once && (refused || errors.Is(err, errUnavailable)):
			return nil // the viewer was sent the error
		case refused:
			return errors.Join(err, v.sendRetry(refusedFor/2+rand.N(refusedFor)))
		}
		return err
	case unsubscribe:
		v.unsubscribe(r.ids)
		v.settleCount()
		return nil
	case deliveries:
		return v.wantDeliveries(r.on)
	case refuse:
		return v.sendError(r.err)
	case say:
		return v.send(r.message)
	case greet:
		return v.greet()
	case keepAlive:
		if v.outdated() {
			return v.greet()
		}
		return v.send(nil)
	case recheck:
		defer v.settleCount()
		return v.recheck()
	default: // goodbye
		after := rand.N(v.hub.cfg.ReconnectSpread)
		if err := v.sendRetry(after); err != nil {
			return err
		}
		if err := v.send(reconnectMessage(after)); err != nil {
			return err
		}
		return errStopping
	}
}

// greet sends a hello with the current heartbeat interval.
func (v *viewer) greet() error {
	schedule := v.hub.schedule(v.tenant)
	v.greeted.Store(&schedule)
	return v.send(schemas.HelloMessage(schedule, v.hub.limits.Load().MaxSubscriptions))
}

// outdated reports whether the heartbeat interval has changed since the last hello. Streams within a
// socket of another handler get no hello here.
func (v *viewer) outdated() bool {
	sent := v.greeted.Load()
	return sent != nil && *sent != v.hub.schedule(v.tenant)
}

func (v *viewer) sendRetry(after time.Duration) error {
	if v.retryIn == nil {
		return nil
	}
	return v.retryIn(after)
}

// refusedFor is how long a client that reconnects by itself is asked to wait when it may watch none
// of the users it asked for. Nothing will have changed earlier.
const refusedFor = time.Minute

// subscribe starts watching those of ids that are not watched yet, and sends snapshots of all of ids
// that the viewer may watch, of at most readLength users each, or with a cursor what it has missed. It
// ends subscriptions that are not allowed any more. If a read fails, the users of the snapshots before
// it stay watched.
func (v *viewer) subscribe(r request) error {
	ids := r.ids
	if limit := v.hub.limits.Load().MaxSubscriptions; len(v.subs)+len(v.fresh(ids)) > limit {
		return v.sendError(tooMany(limit))
	}
	if over := v.count(len(v.subs) + len(v.fresh(ids))); over != nil {
		return v.sendError(over)
	}
	if wait := v.pace(len(ids)); wait > 0 {
		return v.sendError(tooOften(v.hub.cfg.SubscribeRate, wait))
	}
	v.called = r.names
	defer func() { v.called = nil }()
	reply := v.replyTo(r)
	allowed := false
	for part := range slices.Chunk(ids, readLength) {
		switch err := v.subscribeTo(part, reply); {
		case err == nil:
			allowed = true
		case !errors.Is(err, errNotAllowed):
			return err
		}
	}
	if !allowed {
		return errNotAllowed
	}
	return reply.end()
}

// count makes the tenant's account count so many subscriptions of the viewer, at least; over: its quota
// has no room for them.
func (v *viewer) count(subscriptions int) *tenants.OverQuota {
	more := subscriptions - v.counted
	if more <= 0 {
		return nil
	}
	over := v.account.Subscribe(more)
	if over == nil {
		v.counted = subscriptions
	}
	return over
}

// settleCount makes the account count what the viewer watches.
func (v *viewer) settleCount() {
	v.account.Unsubscribe(v.counted - len(v.subs))
	v.counted = len(v.subs)
}

// fresh returns those of ids that are not watched yet.
func (v *viewer) fresh(ids []schemas.UserID) (fresh []schemas.UserID) {
	for _, id := range ids {
		if v.subs[id] == nil {
			fresh = append(fresh, id)
		}
	}
	return fresh
}

// subscribeTo subscribes to at most readLength users. If it fails, it applies nothing.
func (v *viewer) subscribeTo(ids []schemas.UserID, reply *reply) error {
	fresh := v.fresh(ids)
	ctx, cancel := context.WithTimeout(context.Background(), v.hub.cfg.ReadTimeout)
	defer cancel()
	if !v.interruptible(cancel) {
		return nil
	}
	switch answer, err := v.ask(ctx, ids); {
	case err != nil:
		return errors.Join(errUnavailable, v.sendError(&schemas.FieldError{
			Code: "unavailable", Reason: "whether you may watch them cannot be decided now"}))
	case answer.reason != nil:
		v.revoke(ids)
		return errors.Join(errNotAllowed, v.sendError(answer.reason))
	case len(answer.users) > 0:
		if err := v.refuse(answer.users); err != nil {
			return err
		}
		reply.refused(answer.users)
		if ids, fresh = without(ids, answer.users), without(fresh, answer.users); len(ids) == 0 {
			return errNotAllowed
		}
	}
	subs := v.hub.attach(v, fresh)
	// The channels first, the snapshot second. Without the channels the snapshot is marked as stale,
	// and corrections follow once the channels are subscribed.
	wait, done := context.WithTimeout(ctx, v.hub.cfg.ReadTimeout/2)
	whole := v.hub.losses.Load()
	connected := v.hub.Bus.Subscribe(wait, fresh) == nil
	if !connected {
		whole = 0
	}
	done()
	users, err := v.hub.reader.read(ctx, ids, v.namesOf(ids), connected)
	if err != nil {
		v.hub.detach(subs)
		v.hub.Bus.Unsubscribe(fresh)
		return errors.Join(errUnavailable, v.sendError(&schemas.FieldError{
			Code: "unavailable", Reason: errUnavailable.Error()}))
	}
	for i, id := range fresh {
		v.subs[id] = subs[i]
	}
	v.setWatched(len(v.subs))
	v.planRecheck()
	denials := v.denials(ctx, users)
	sent := make([]*state, len(ids))
	for i, id := range ids {
		var d shown.Denying
		if denials != nil {
			d = denials[i]
		}
		sent[i] = v.hub.settle(v.subs[id], users[i], whole, d)
	}
	return reply.send(ctx, sent)
}

// burst is how many times MaxSubscriptions a connection may ask for at once: enough to watch as many
// as it may, and to change all of them.
const burst = 4

// pace returns how long a request for so many users has to wait; 0: it may go on.
func (v *viewer) pace(users int) time.Duration {
	if v.asking == nil {
		v.asking = rate.NewLimiter(rate.Limit(v.hub.cfg.SubscribeRate), burst*v.hub.limits.Load().MaxSubscriptions)
	}
	now := time.Now()
	taken := v.asking.ReserveN(now, users)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now) // a refused request costs nothing
	}
	return wait
}

// unsubscribe stops watching those of ids that are watched.
func (v *viewer) unsubscribe(ids []schemas.UserID) {
	var left []schemas.UserID
	var subs []*sub
	for _, id := range ids {
		if s := v.subs[id]; s != nil {
			left = append(left, id)
			subs = append(subs, s)
			delete(v.subs, id)
		}
	}
	if len(v.subs) == 0 {
		v.subs = make(map[schemas.UserID]*sub) // a map keeps the memory of all it ever held
	}
	v.hub.detach(subs)
	v.hub.Bus.Unsubscribe(left)
	v.setWatched(len(v.subs))
	if v.trail != nil {
		v.trail.leave(ids, false)
	}
}

func (v *viewer) unsubscribeAll() {
	ids := make([]schemas.UserID, 0, len(v.subs))
	for id := range v.subs {
		ids = append(ids, id)
	}
	v.unsubscribe(ids)
}

// interruptible lets close cancel the request in progress; false when the viewer is closing.
func (v *viewer) interruptible(cancel context.CancelFunc) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.interrupt = cancel
	return !v.ended
}

func (v *viewer) sendError(err error) error { return v.sendErrorBody(bodyOf(err)) }

func (v *viewer) sendErrorBody(body errorBody) error {
	v.hub.Metrics.Errors.WithLabelValues(body.Code).Inc()
	return v.send(errorMessage(body))
}
