package live

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// recheckLater has it asked again, after a jittered RecheckInterval, whether the viewer
// may watch whom it watches. Called by work.
func (v *viewer) recheckLater() {
	if v.hub.mayWatch == nil || v.exempt || v.recheckTimer != nil || len(v.subs) == 0 {
		return
	}
	wait := v.hub.cfg.RecheckInterval
	wait = wait - wait/4 + rand.N(wait/2+1)
	v.recheckTimer = time.AfterFunc(wait, func() { v.post(request{kind: recheck}) })
}

// recheck asks and ends the subscriptions that are not allowed any more. Where it
// cannot be decided they go on until the next time: viewers do not go blind because the
// graph is away.
func (v *viewer) recheck() error {
	v.recheckTimer = nil
	if len(v.subs) == 0 {
		return nil
	}
	defer v.recheckLater()
	ids := slices.Sorted(maps.Keys(v.subs))
	ctx, cancel := context.WithTimeout(context.Background(), v.hub.cfg.ReadTimeout)
	defer cancel()
	if !v.interruptible(cancel) {
		return nil
	}
	err := v.hub.mayWatch(ctx, v.who, ids)
	var some *NotAllowed
	var refusal *schemas.FieldError
	switch {
	case errors.As(err, &some):
		v.revoke(some.Users)
		return v.refuse(some.Users)
	case errors.As(err, &refusal):
		v.revoke(ids)
		return v.sendError(refusal)
	}
	return nil
}

// revoke ends those of the subscriptions that there are.
func (v *viewer) revoke(users []schemas.UserID) {
	before := len(v.subs)
	v.unsubscribe(users)
	v.hub.metrics.Revoked.Add(float64(before - len(v.subs)))
}
