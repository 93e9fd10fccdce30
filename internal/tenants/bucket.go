package tenants

import (
	"math"
	"sync"
	"time"
)

// bucket lets so many through per second on average. What it lets through may be more than it holds:
// then it is in debt, and lets nothing through until the debt is paid. So requests of any size pass,
// and the average holds.
type bucket struct {
	mu     sync.Mutex
	rate   int64
	tokens float64
	at     time.Duration
}

// take takes n at a time if rate (more than 0) lets them through, else it returns how long to wait.
func (b *bucket) take(now time.Duration, rate int64, n int) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now, rate)
	if b.tokens < 1 {
		return time.Duration(math.Ceil((1 - b.tokens) / float64(rate) * float64(time.Second))) // more than 0, which lets n through
	}
	b.tokens -= float64(n)
	return 0
}

// burst is how many a bucket of a rate holds: a tenth of a second's worth, or 20 if that is more. Callers that were refused
// come back in the same second, and whatever the bucket holds then is work for which other tenants wait.
func burst(rate int64) float64 { return float64(max(rate/10, min(rate, 20))) }

// fill adds what has come since the last time. After a change of the rate the bucket is full.
func (b *bucket) fill(now time.Duration, rate int64) {
	if b.rate != rate {
		b.rate, b.tokens = rate, burst(rate)
	} else {
		b.tokens = min(b.tokens+float64(rate)*(now-b.at).Seconds(), burst(rate))
	}
	b.at = now
}

// paid reports whether the bucket is in no debt.
func (b *bucket) paid(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now, b.rate)
	return b.tokens >= 0
}
