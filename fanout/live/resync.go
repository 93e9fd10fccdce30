package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// readLength is how many users one read has, and one snapshot or resync.
const readLength = 500

// rereadAfter is how long after Reread users are read again: those of a lost gateway together.
const rereadAfter = 100 * time.Millisecond

// resyncs reads users again until ctx ends: all of them when the bus has connected; those with an
// unsure state, until it is sure; and those of whom a change was lost (see compare.go).
func (h *hub) resyncs(ctx context.Context) {
	again := time.NewTicker(h.cfg.RefreshInterval)
	defer again.Stop()
	compare := time.NewTicker(h.cfg.CompareInterval / shards)
	defer compare.Stop()
	turn := 0                   // the shard to compare next
	all := false                // all users have to be read; stays true after a failed read
	var reread <-chan time.Time // when those of Reread are to be read; nil: there are none
	for {
		of := whoIsUnsure
		select {
		case <-ctx.Done():
			return
		case <-h.reconnect:
			all = true
		case <-h.rereads:
			if reread == nil {
				reread = time.After(rereadAfter)
			}
			continue
		case <-reread:
			reread, of = nil, whoIsToBeReread
		case <-again.C:
		case <-compare.C:
			if err := h.compare(ctx, &h.shards[turn]); err != nil && ctx.Err() == nil {
				h.Log.Warn("comparing watched users with the current status failed",
					"error", err, "retry_in", h.cfg.CompareInterval)
			}
			turn = (turn + 1) % shards
			continue
		}
		if all {
			of = everybody
		}
		users, lost := h.watched(of)
		if lost > 0 {
			h.Log.Warn("the bus lost changes while it was connected; reading their users again", "users", lost)
		}
		complete := h.complete.Load()
		err := h.readEach(ctx, users, func(p schemas.Presence) { h.correct(p, complete) })
		if err == nil && all {
			all = false
			h.Metrics.Reread.Inc()
		}
		if err != nil && ctx.Err() == nil {
			h.Log.Warn("reading watched users again failed; viewers may see old states until the next try",
				"users", len(users), "error", err, "retry_in", h.cfg.RefreshInterval)
		}
	}
}

// Which of the watched users are read again.
const (
	whoIsToBeReread = iota
	whoIsUnsure     // and these
	everybody
)

// watched returns the watched users that are to be read, and the number of changes found to be lost.
func (h *hub) watched(of int) (users []schemas.UserID, lost int) {
	now := time.Now()
	for i := range h.shards {
		sh := &h.shards[i]
		sh.mu.Lock()
		for id, e := range sh.users {
			if e.current == nil { // a viewer is reading it, perhaps as it was before the gap
				e.reread = e.reread || of == everybody
				continue
			}
			if of == whoIsToBeReread && !e.reread {
				continue
			}
			if e.lost(now, h.cfg.LostAfter) {
				lost++
				e.unsure = true // until it is read again
			}
			e.unsure, e.reread = e.unsure || e.reread, false
			if of == everybody || e.unsure {
				users = append(users, id)
			}
		}
		sh.mu.Unlock()
	}
	h.Metrics.Lost.Add(float64(lost))
	return users, lost
}

// readEach reads users and calls do for each.
func (h *hub) readEach(ctx context.Context, users []schemas.UserID, do func(schemas.Presence)) error {
	for part := range slices.Chunk(users, readLength) {
		ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		part, names := h.named(part)
		read, err := h.reader.read(ctx, part, names, true)
		cancel()
		if err != nil {
			return fmt.Errorf("reading again: %w", err)
		}
		for _, p := range read {
			do(p)
		}
	}
	return nil
}

// correct queues what was read for the user's viewers whose last state differs. complete is that of the
// hub before the read.
func (h *hub) correct(p schemas.Presence, complete uint64) {
	read := newState(p)
	sh := h.shardOf(p.UserID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.users[p.UserID]
	if e == nil || e.current == nil { // who reads it has subscribed since
		return
	}
	fixed, before := false, e.current.version
	switch {
	case read.version < e.current.version:
		// The view is behind the channel. Only its staleness is news.
		e.reread = e.reread || p.UnsureSince != 0
		read = e.current.withStale(p.StaleSince)
	default:
		fixed = read.corrects(e.current)
		h.adopt(e, read)
	}
	e.unsure = read.unsure()
	// Its channel is among those that Connected speaks of, and the read is not behind the channel.
	if e.whole != 0 && p.StaleSince == 0 && versionOf(p) >= before {
		e.whole = max(e.whole, complete)
	}
	h.resync(e, read, fixed)
}

// resync queues a state for the viewers of e who were sent another one; fixed as in pushCorrection. Holds
// the shard.
func (h *hub) resync(e *entry, st *state, fixed bool) {
	pushed := 0
	for _, s := range e.subs {
		if s.viewer.pushCorrection(s, st, fixed) {
			pushed++
		}
	}
	h.Metrics.Resynced.Add(float64(pushed))
}
