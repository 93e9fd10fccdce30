// Package quota bounds how many of something each holder may have at a time.
package quota

import (
	"sync"
	"sync/atomic"
)

// Quota counts what each holder has. It remembers only holders that have something. All methods may
// be called from any goroutine. A nil Quota bounds nothing.
type Quota[Holder comparable] struct {
	most atomic.Int64
	mu   sync.Mutex // protects held
	held map[Holder]int32
}

// New makes a Quota of at most so many per holder; 0: any number.
func New[Holder comparable](most int) *Quota[Holder] {
	q := &Quota[Holder]{held: map[Holder]int32{}}
	q.Allow(most)
	return q
}

// Allow sets how many each holder may have from now on; 0: any number. What is held stays.
func (q *Quota[Holder]) Allow(most int) { q.most.Store(int64(most)) }

// Take counts one more of holder. It returns false, and counts nothing, if holder has as many as
// allowed. The zero holder, who is not known, may have any number. Pair each true with one Give.
func (q *Quota[Holder]) Take(holder Holder) bool {
	if q.uncounted(holder) {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if most := q.Most(); most > 0 && int(q.held[holder]) >= most {
		return false
	}
	q.held[holder]++
	return true
}

// Give undoes one Take.
func (q *Quota[Holder]) Give(holder Holder) {
	if q.uncounted(holder) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[holder]--; q.held[holder] <= 0 {
		delete(q.held, holder)
	}
}

// Most is how many each holder may have; 0: any number.
func (q *Quota[Holder]) Most() int { return int(q.most.Load()) }

func (q *Quota[Holder]) uncounted(holder Holder) bool {
	var unknown Holder
	return q == nil || holder == unknown
}
