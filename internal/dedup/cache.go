// Package dedup remembers who was told what, so that nobody is told twice.
package dedup

import (
	"sync"

	"github.com/stillhere/stillhere/schemas"
)

// pair is a recipient and whom it was told of.
type pair struct{ recipient, user schemas.UserID }

// Memory knows the newest version that a pair was told, of the pairs told last:
// at least half of limit, at most limit. When the younger generation is full the
// older one is forgotten.
type Memory struct {
	limit int

	mu         sync.Mutex
	young, old map[pair]schemas.Version
}

// New makes one of limit pairs, about 60 bytes each. Any goroutine may use it.
func New(limit int) *Memory {
	return &Memory{limit: max(1, limit/2), young: map[pair]schemas.Version{}, old: map[pair]schemas.Version{}}
}

// Fresh is those of recipients who were not told version of user, or a newer one.
func (m *Memory) Fresh(user schemas.UserID, version schemas.Version, recipients []schemas.UserID) []schemas.UserID {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := make([]schemas.UserID, 0, len(recipients))
	for _, r := range recipients {
		p := pair{r, user}
		if max(m.young[p], m.old[p]) < version {
			fresh = append(fresh, r)
		}
	}
	return fresh
}

// Note notes that recipients were told version of user.
func (m *Memory) Note(user schemas.UserID, version schemas.Version, recipients []schemas.UserID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range recipients {
		if len(m.young) >= m.limit {
			m.old, m.young = m.young, make(map[pair]schemas.Version, m.limit/4)
		}
		m.young[pair{r, user}] = version
	}
}
