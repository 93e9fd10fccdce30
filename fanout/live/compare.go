package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Pub/sub promises nothing: a message can be lost while the connection stands, as in a
// failover of which the subscriber's server does not know yet. So what is watched is
// compared with what can be read, a shard at a time, each once in CompareInterval; and
// whoever subscribes compares as well. A reading is often ahead of the channel, by
// milliseconds: only what the channel has not brought LostAfter later counts as lost,
// and is read again and told as a resync.

// knows notes that a reading had version, which the channel has not brought. Holds the
// shard.
func (e *entry) knows(version int64) {
	if e.known == 0 {
		e.knownSince = time.Now()
	}
	e.known = max(e.known, version)
}

// lost tells whether what a reading knew has been lost on its way. Holds the shard.
func (e *entry) lost(now time.Time, after time.Duration) bool {
	switch {
	case e.known == 0 || e.current == nil:
		return false
	case e.known <= e.current.version: // it came
		e.known = 0
		return false
	case now.Sub(e.knownSince) < after:
		return false
	}
	e.known = 0
	return true
}

// compare reads the users of a shard and notes of whom there is more than the channel
// has brought.
func (h *hub) compare(ctx context.Context, sh *shard) error {
	var users []schemas.UserID
	sh.mu.Lock()
	for id := range sh.users {
		users = append(users, id)
	}
	sh.mu.Unlock()
	for part := range slices.Chunk(users, readLength) {
		ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		read, err := h.reader.read(ctx, part, true)
		cancel()
		if err != nil {
			return fmt.Errorf("comparing %d users: %w", len(part), err)
		}
		h.metrics.Compared.Add(float64(len(part)))
		sh.mu.Lock()
		for _, p := range read {
			e := sh.users[p.UserID]
			if version := versionOf(p); e != nil && e.current != nil && version > e.current.version {
				e.knows(version)
			}
		}
		sh.mu.Unlock()
	}
	return nil
}
