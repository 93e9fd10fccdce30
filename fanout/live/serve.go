package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// do handles one request. An error ends the viewer.
func (v *viewer) do(r request) error {
	switch r.kind {
	case subscribe:
		err := v.subscribe(r.ids)
		switch refused := errors.Is(err, errNotAllowed); {
		case !r.once && (refused || errors.Is(err, errUnavailable)):
			return nil // it was told
		case refused:
			return errors.Join(err, v.sendRetry(refusedFor/2+rand.N(refusedFor)))
		}
		return err
	case unsubscribe:
		v.unsubscribe(r.ids)
		return nil
	case deliveries:
		return v.wantDeliveries(r.on)
	case refuse:
		return v.sendError(r.err)
	case greet:
		return v.send(helloMessage(time.Duration(v.hub.interval.Load()), v.hub.cfg.MaxSubscriptions))
	case keepAlive:
		return v.send(nil)
	case recheck:
		return v.recheck()
	default: // goodbye
		if err := v.goodbye(rand.N(v.hub.cfg.ReconnectSpread)); err != nil {
			return err
		}
		return errStopping
	}
}

func (v *viewer) goodbye(after time.Duration) error {
	if err := v.sendRetry(after); err != nil {
		return err
	}
	return v.send(reconnectMessage(after))
}

func (v *viewer) sendRetry(after time.Duration) error {
	if v.retryIn == nil {
		return nil
	}
	return v.retryIn(after)
}

// refusedFor is how long a client that comes back by itself is asked to stay away when it
// may watch none of those it asked for: no sooner will anything have changed.
const refusedFor = time.Minute

// subscribe starts watching those of ids that are not watched yet, and sends a
// snapshot of all of ids that the viewer may watch; those that it watches and may not
// any more it does not watch after this. When it cannot, nothing of the request is
// applied.
func (v *viewer) subscribe(ids []schemas.UserID) error {
	var fresh []schemas.UserID
	for _, id := range ids {
		if v.subs[id] == nil {
			fresh = append(fresh, id)
		}
	}
	if limit := v.hub.cfg.MaxSubscriptions; len(v.subs)+len(fresh) > limit {
		return v.sendError(tooMany(limit))
	}
	if wait := v.pace(len(ids)); wait > 0 {
		return v.sendError(tooOften(v.hub.cfg.SubscribeRate, wait))
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.hub.cfg.ReadTimeout)
	defer cancel()
	if !v.interruptible(cancel) {
		return nil
	}
	if err := v.allowed(ctx, ids); err != nil {
		var some *NotAllowed
		if !errors.As(err, &some) {
			return err
		}
		v.revoke(some.Users)
		if err := v.refuse(some.Users); err != nil {
			return err
		}
		ids, fresh = without(ids, some.Users), without(fresh, some.Users)
		if len(ids) == 0 {
			return errNotAllowed
		}
	}
	subs := v.hub.attach(v, fresh)
	// The channels first, the snapshot second. Without the channels the snapshot
	// says that it may be stale, and what differs follows once they are there.
	wait, done := context.WithTimeout(ctx, v.hub.cfg.ReadTimeout/2)
	connected := v.hub.bus.Subscribe(wait, fresh) == nil
	done()
	users, err := v.hub.reader.read(ctx, ids, connected)
	if err != nil {
		v.hub.detach(subs)
		v.hub.bus.Unsubscribe(fresh)
		return errors.Join(errUnavailable, v.sendError(&schemas.FieldError{Code: "unavailable", Reason: errUnavailable.Error()}))
	}
	for i, id := range fresh {
		v.subs[id] = subs[i]
	}
	v.watches(len(v.subs))
	v.recheckLater()
	sent := make([]*state, len(ids))
	for i, id := range ids {
		sent[i] = v.hub.settle(v.subs[id], users[i])
	}
	return v.send(usersMessage("snapshot", sent))
}

// burst is how many times MaxSubscriptions a connection may ask for at once: to watch as
// many as it may, others instead of them, and to change its mind.
const burst = 4

// pace tells how long a request for so many users has to wait; 0: it may go on.
func (v *viewer) pace(users int) time.Duration {
	if v.asking == nil {
		v.asking = rate.NewLimiter(rate.Limit(v.hub.cfg.SubscribeRate), burst*v.hub.cfg.MaxSubscriptions)
	}
	now := time.Now()
	taken := v.asking.ReserveN(now, users)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now) // being refused costs nothing
	}
	return wait
}

// allowed asks whether the viewer may watch ids, and tells it when not. A *NotAllowed is
// for the caller to tell.
func (v *viewer) allowed(ctx context.Context, ids []schemas.UserID) error {
	if v.hub.mayWatch == nil || v.exempt || len(ids) == 0 {
		return nil
	}
	err := v.hub.mayWatch(ctx, v.who, ids)
	var refusal *schemas.FieldError
	var some *NotAllowed
	switch {
	case err == nil:
		return nil
	case errors.As(err, &some):
		return some
	case errors.As(err, &refusal):
		v.revoke(ids)
		return errors.Join(errNotAllowed, v.sendError(refusal))
	}
	return errors.Join(errUnavailable, v.sendError(&schemas.FieldError{Code: "unavailable", Reason: "whether you may watch them cannot be decided now"}))
}

// refuse tells the viewer whom it may not watch.
func (v *viewer) refuse(users []schemas.UserID) error {
	for _, user := range users {
		v.hub.metrics.Errors.WithLabelValues("not_allowed").Inc()
		if err := v.send(notAllowedMessage(user)); err != nil {
			return err
		}
	}
	return nil
}

// without is ids but for some.
func without(ids, some []schemas.UserID) []schemas.UserID {
	return slices.DeleteFunc(slices.Clone(ids), func(id schemas.UserID) bool { return slices.Contains(some, id) })
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
		v.subs = make(map[schemas.UserID]*sub) // a map keeps the room of all it ever held
	}
	v.hub.detach(subs)
	v.hub.bus.Unsubscribe(left)
	v.watches(len(v.subs))
}

// interruptible lets close end the request in hand; false when it is closing.
func (v *viewer) interruptible(cancel context.CancelFunc) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.interrupt = cancel
	return !v.ended
}

func (v *viewer) sendError(err error) error {
	v.hub.metrics.Errors.WithLabelValues(bodyOf(err).Code).Inc()
	return v.send(errorMessage(err))
}

func (v *viewer) unsubscribeAll() {
	ids := make([]schemas.UserID, 0, len(v.subs))
	for id := range v.subs {
		ids = append(ids, id)
	}
	v.unsubscribe(ids)
}
