// Package quota bounds how many of something each holder may have at a time.
package quota

import "sync"

// Quota counts what each holder has. It remembers only holders that have something. All methods may
// be called from any goroutine. A nil Quota bounds nothing.
type Quota[Holder comparable] struct {
	most int
	mu   sync.Mutex // protects held
	held map[Holder]int32
}

// New makes a Quota of at most so many per holder; 0: any number.
func New[Holder comparable](most int) *Quota[Holder] {
	return &Quota[Holder]{most: most, held: map[Holder]int32{}}
}

// Take counts one more of holder. It returns false, and counts nothing, if holder has as many as
// allowed. The zero holder, who is not known, may have any number. Pair each true with one Give.
func (q *Quota[Holder]) Take(holder Holder) bool {
	if q.unbounded(holder) {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.held[holder]) >= q.most {
		return false
	}
	q.held[holder]++
	return true
}

// Give undoes one Take.
func (q *Quota[Holder]) Give(holder Holder) {
	if q.unbounded(holder) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[holder]--; q.held[holder] <= 0 {
		delete(q.held, holder)
	}
}

// Most is how many each holder may have; 0: any number.
func (q *Quota[Holder]) Most() int { return q.most }

func (q *Quota[Holder]) unbounded(holder Holder) bool {
	var unknown Holder
	return q == nil || q.most == 0 || holder == unknown
}
