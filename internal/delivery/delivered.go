package delivery

import (
	"sync"

	"github.com/stillhere/stillhere/schemas"
)

// pair is a recipient and the user whose change was delivered.
type pair struct{ recipient, user schemas.UserID }

// Delivered knows the newest delivered version of the pairs that were added last: at least limit/2
// pairs, at most limit. When the newer generation is full, it replaces the older one. Any
// goroutine may use it.
type Delivered struct {
	limit int

	mu           sync.Mutex
	newer, older map[pair]schemas.Version
}

// NewDelivered makes one of limit pairs, about 60 bytes each.
func NewDelivered(limit int) *Delivered {
	return &Delivered{limit: max(1, limit/2), newer: map[pair]schemas.Version{}, older: map[pair]schemas.Version{}}
}

// Fresh returns the recipients to whom neither this version of user nor a newer one was delivered.
func (c *Delivered) Fresh(user schemas.UserID, version schemas.Version, recipients []schemas.UserID) []schemas.UserID {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := make([]schemas.UserID, 0, len(recipients))
	for _, r := range recipients {
		p := pair{r, user}
		if max(c.newer[p], c.older[p]) < version {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// Add records that version of user was delivered to recipients.
func (c *Delivered) Add(user schemas.UserID, version schemas.Version, recipients []schemas.UserID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range recipients {
		if len(c.newer) >= c.limit {
			c.older, c.newer = c.newer, make(map[pair]schemas.Version, c.limit/4)
		}
		c.newer[pair{r, user}] = version
	}
}
