package live

import (
	"context"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Pub/sub guarantees no delivery: a message can be lost while the connection is up, as in a failover
// that the subscriber's server has not noticed. So the hub compares the watched users with the
// current status, one shard at a time, each once in CompareInterval; and every subscribe compares as
// well. A read is often milliseconds ahead of the channel. Only a change that the channel has not
// brought LostAfter later counts as lost; its user is read again and sent as a resync.

// knows notes that a read had version, which the channel has not brought. Holds the shard.
func (e *entry) knows(version int64) {
	if e.known == 0 {
		e.knownSince = time.Now()
	}
	e.known = max(e.known, version)
}

// lost reports whether the channel lost what a read had. Holds the shard.
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

// compare reads the users of a shard and notes newer versions than the channel has brought.
func (h *hub) compare(ctx context.Context, sh *shard) error {
	var users []schemas.UserID
	sh.mu.Lock()
	for id := range sh.users {
		users = append(users, id)
	}
	sh.mu.Unlock()
	return h.readEach(ctx, users, func(p schemas.Presence) {
		h.Metrics.Compared.Inc()
		sh.mu.Lock()
		defer sh.mu.Unlock()
		e, version := sh.users[p.UserID], versionOf(p)
		switch {
		case e == nil || e.current == nil:
		case version > e.current.version:
			e.knows(version)
		case version == e.current.version && p.UnsureSince != e.current.presence.UnsureSince:
			e.reread = true // a Reread was lost
		}
	})
}
