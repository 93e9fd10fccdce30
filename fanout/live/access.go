package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// MayWatch decides whether viewer may watch all of users: nil says yes, *NotAllowed names those it
// may not watch. A *schemas.FieldError refuses all of them and is sent as it is. Any other error
// says that it cannot be decided now; then nothing of the request is applied. At a recheck the first
// two refusals end subscriptions, and an undecided one changes nothing. viewer is 0 when it is
// unknown. MayWatch is called concurrently and gives up when ctx ends. Hidden users are hidden from
// everybody without it. (Viewers see the answer. To keep a block secret, let the blocked viewer
// watch a user that does not exist.)
type MayWatch func(ctx context.Context, viewer schemas.UserID, users []schemas.UserID) error

// NotAllowed is the error of MayWatch for users whom the viewer may not watch. Each gets an error
// message of its own, the same for users who are online, hidden or unknown. The viewer watches the
// other users of the request.
type NotAllowed struct{ Users []schemas.UserID }

func (e *NotAllowed) Error() string {
	return fmt.Sprintf("not allowed to watch %d users", len(e.Users))
}

// refused is an answer of MayWatch.
type refused struct {
	users  []schemas.UserID    // who may not be watched
	reason *schemas.FieldError // not nil: none of those asked about
}

// ask asks whether the viewer may watch ids. An error says that it cannot be decided now.
func (v *viewer) ask(ctx context.Context, ids []schemas.UserID) (r refused, err error) {
	if v.hub.MayWatch == nil || v.exempt || len(ids) == 0 {
		return r, nil
	}
	err = v.hub.MayWatch(ctx, v.who, ids)
	var some *NotAllowed
	switch {
	case errors.As(err, &some):
		return refused{users: some.Users}, nil
	case errors.As(err, &r.reason):
		return r, nil
	}
	return r, err
}

// refusals are the messages that say whom the viewer may not watch.
func (v *viewer) refusals(users []schemas.UserID) []errorBody {
	bodies := make([]errorBody, len(users))
	for i, user := range users {
		bodies[i] = notAllowed(user, v.nameOf(user))
	}
	return bodies
}

// refuse ends the viewer's subscriptions to users and says so.
func (v *viewer) refuse(users []schemas.UserID) error {
	bodies := v.refusals(users)
	v.revoke(users)
	for _, body := range bodies {
		if err := v.sendErrorBody(body); err != nil {
			return err
		}
	}
	return nil
}

// revoke ends the viewer's subscriptions to users.
func (v *viewer) revoke(users []schemas.UserID) {
	before := len(v.subs)
	v.unsubscribe(users)
	if v.trail != nil {
		v.trail.leave(users, true)
	}
	v.hub.Metrics.Revoked.Add(float64(before - len(v.subs)))
}

// without returns ids except for some.
func without(ids, some []schemas.UserID) []schemas.UserID {
	return slices.DeleteFunc(slices.Clone(ids), func(id schemas.UserID) bool { return slices.Contains(some, id) })
}

// planRecheck makes the viewer recheck after a jittered RecheckInterval. Called by work.
func (v *viewer) planRecheck() {
	if v.hub.MayWatch == nil || v.exempt || v.recheckTimer != nil || len(v.subs) == 0 {
		return
	}
	wait := v.hub.cfg.RecheckInterval
	wait = wait - wait/4 + rand.N(wait/2+1)
	v.recheckTimer = time.AfterFunc(wait, func() { v.post(request{kind: recheck}) })
}

// recheck ends the subscriptions that are not allowed any more. If that cannot be decided, they stay
// until the next recheck: viewers do not go blind when the graph is away.
func (v *viewer) recheck() error {
	v.recheckTimer = nil
	if len(v.subs) == 0 {
		return nil
	}
	defer v.planRecheck()
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(v.subs)), readLength) {
		if err := v.recheckOf(ids); err != nil {
			return err
		}
	}
	return nil
}

func (v *viewer) recheckOf(ids []schemas.UserID) error {
	ctx, cancel := context.WithTimeout(context.Background(), v.hub.cfg.ReadTimeout)
	defer cancel()
	if !v.interruptible(cancel) {
		return nil
	}
	switch answer, err := v.ask(ctx, ids); {
	case err != nil:
		return nil
	case answer.reason != nil:
		v.revoke(ids)
		return v.sendError(answer.reason)
	default:
		return v.refuse(answer.users)
	}
}
