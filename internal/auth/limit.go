package auth

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// limits is one rate limiter per user. It removes a user without requests after one or two
// rounds, so that the active users bound the memory.
type limits struct {
	each  rate.Limit
	burst int

	mu     sync.Mutex // never held while anything blocks
	of     map[schemas.UserID]*rate.Limiter
	before map[schemas.UserID]*rate.Limiter // the round before
	turned time.Time
}

// round is the time after which idle users are removed, at the second one.
const round = time.Minute

// newLimits allows each per second and burst at once; each 0: any number.
func newLimits(each float64, burst int) *limits {
	return &limits{each: rate.Limit(each), burst: burst, of: map[schemas.UserID]*rate.Limiter{}}
}

// take counts n towards the limit of user. It returns how long user has to wait; 0: not at all.
// n is at most burst.
func (l *limits) take(user schemas.UserID, n int, now time.Time) time.Duration {
	if l.each == 0 {
		return 0
	}
	taken := l.limiter(user, now).ReserveN(now, n)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now) // a refusal costs nothing
	}
	return wait
}

// empty uses up the limit of user.
func (l *limits) empty(user schemas.UserID, now time.Time) {
	limiter := l.limiter(user, now)
	limiter.AllowN(now, int(limiter.TokensAt(now)))
}

// limiter returns the limiter of user.
func (l *limits) limiter(user schemas.UserID, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.turned) > round {
		l.before, l.of, l.turned = l.of, map[schemas.UserID]*rate.Limiter{}, now
	}
	limiter := l.of[user]
	if limiter == nil {
		if limiter = l.before[user]; limiter == nil {
			limiter = rate.NewLimiter(l.each, l.burst)
		}
		l.of[user] = limiter
	}
	return limiter
}

// seconds is wait for Retry-After: whole seconds, at least 1.
func seconds(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }
