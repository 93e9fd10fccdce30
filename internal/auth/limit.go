package auth

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits is one rate limiter per caller. It removes a caller without requests after one or two
// rounds, so that the active callers bound the memory.
type limits struct {
	each  rate.Limit
	burst int

	mu     sync.Mutex // never held while anything blocks
	of     map[string]*rate.Limiter
	before map[string]*rate.Limiter // the round before
	turned time.Time
}

// round is the time after which idle callers are removed, at the second one.
const round = time.Minute

// newLimits allows each per second and burst at once; each 0: any number.
func newLimits(each float64, burst int) *limits {
	return &limits{each: rate.Limit(each), burst: burst, of: map[string]*rate.Limiter{}}
}

// take counts n towards the limit of name. It returns how long name has to wait; 0: not at all.
// n is at most burst.
func (l *limits) take(name string, n int, now time.Time) time.Duration {
	if l.each == 0 {
		return 0
	}
	taken := l.limiter(name, now).ReserveN(now, n)
	wait := taken.DelayFrom(now)
	if wait > 0 {
		taken.CancelAt(now) // a refusal costs nothing
	}
	return wait
}

// empty uses up the limit of name.
func (l *limits) empty(name string, now time.Time) {
	limiter := l.limiter(name, now)
	limiter.AllowN(now, int(limiter.TokensAt(now)))
}

// limiter returns the limiter of name.
func (l *limits) limiter(name string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.turned) > round {
		l.before, l.of, l.turned = l.of, map[string]*rate.Limiter{}, now
	}
	limiter := l.of[name]
	if limiter == nil {
		if limiter = l.before[name]; limiter == nil {
			limiter = rate.NewLimiter(l.each, l.burst)
		}
		l.of[name] = limiter
	}
	return limiter
}

// seconds is wait for Retry-After: whole seconds, at least 1.
func seconds(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }
