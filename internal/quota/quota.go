// Package quota bounds how many of something each user may hold at a time. The endpoints
// that keep connections open share one Quota per process, so that the bound is on all
// of a user's sockets and streams together.
package quota

import (
	"sync"

	"github.com/stillhere/stillhere/schemas"
)

// Quota counts what each user holds. It remembers only users who hold something. All
// methods may be called from any goroutine.
type Quota struct {
	most int
	mu   sync.Mutex // protects held
	held map[schemas.UserID]int32
}

// New makes a Quota of at most so many per user; 0: any number.
func New(most int) *Quota { return &Quota{most: most, held: map[schemas.UserID]int32{}} }

// Take counts one more that user holds; false, and nothing is counted, when the user
// holds as many as it may. Whoever is not known (0) may hold any number. Pair each
// true with one Give of the same user.
func (q *Quota) Take(user schemas.UserID) bool {
	if q.most == 0 || user == 0 {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.held[user]) >= q.most {
		return false
	}
	q.held[user]++
	return true
}

// Give undoes one Take.
func (q *Quota) Give(user schemas.UserID) {
	if q.most == 0 || user == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[user]--; q.held[user] <= 0 {
		delete(q.held, user)
	}
}

// Most is how many each may hold; 0: any number.
func (q *Quota) Most() int { return q.most }
