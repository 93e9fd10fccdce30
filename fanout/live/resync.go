package live

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// readLength is how many users are read again at once.
const readLength = 500

// resyncs reads users again until ctx ends: all of them when the bus was connected
// anew, those of whom something unsure was told until it is sure, and those of whom a
// change was lost; compare.go tells how that is found.
func (h *hub) resyncs(ctx context.Context, log *slog.Logger) {
	again := time.NewTicker(h.cfg.RefreshInterval)
	defer again.Stop()
	compare := time.NewTicker(h.cfg.CompareInterval / shards)
	defer compare.Stop()
	turn := 0    // the shard to be compared next
	all := false // everything has to be read: not done yet, or the last try failed
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.reconnect:
			all = true
		case <-again.C:
		case <-compare.C:
			if err := h.compare(ctx, &h.shards[turn]); err != nil && ctx.Err() == nil {
				log.Warn("comparing watched users with what can be read", "error", err, "again_in", h.cfg.CompareInterval)
			}
			turn = (turn + 1) % shards
			continue
		}
		users, lost := h.watched(!all)
		if lost > 0 {
			log.Warn("changes were lost by the bus while it was connected; their users are read again", "users", lost)
		}
		err := h.readAgain(ctx, users)
		if err == nil {
			all = false
		} else if ctx.Err() == nil {
			log.Warn("reading watched users again", "users", len(users), "error", err, "retry_in", h.cfg.RefreshInterval)
		}
	}
}

// watched lists the watched users, or of them those somebody was told something
// unsure of; and how many changes turned out to be lost.
func (h *hub) watched(unsureOnly bool) (users []schemas.UserID, lost int) {
	now := time.Now()
	for i := range h.shards {
		sh := &h.shards[i]
		sh.mu.Lock()
		for id, e := range sh.users {
			if e.lost(now, h.cfg.LostAfter) {
				lost++
				e.unsure = true // until it has been read
			}
			if !unsureOnly || e.unsure {
				users = append(users, id)
			}
		}
		sh.mu.Unlock()
	}
	h.metrics.Lost.Add(float64(lost))
	return users, lost
}

func (h *hub) readAgain(ctx context.Context, users []schemas.UserID) error {
	for part := range slices.Chunk(users, readLength) {
		ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		read, err := h.reader.read(ctx, part, true)
		cancel()
		if err != nil {
			return err
		}
		for _, p := range read {
			h.correct(p)
		}
	}
	return nil
}

// correct tells the viewers of a user what differs from what they were told.
func (h *hub) correct(p schemas.Presence) {
	read := newState(p)
	sh := h.shardOf(p.UserID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.users[p.UserID]
	if e == nil {
		return
	}
	fixed := false
	switch {
	case e.current == nil:
		// Some viewer is reading its snapshot; what it reads may be from before the gap.
		if c := e.early; c.Transition != nil && int64(c.Transition.Version) > read.version {
			read = newState(h.after(c, p))
		}
		e.current = read
	case read.version < e.current.version:
		// The view is behind the channel. Only whether it is stale is news.
		read = e.current.withStale(p.StaleSince)
	default:
		fixed = read.corrects(e.current)
		e.current = read
	}
	e.unsure = read.unsure()
	pushed := 0
	for _, s := range e.subs {
		if s.viewer.pushCorrection(s, read, fixed) {
			pushed++
		}
	}
	h.metrics.Resynced.Add(float64(pushed))
}
