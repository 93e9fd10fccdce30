// Package query answers who is here, who was when, and what happened.
package query

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// View is what Redis knows of users, in their order, and how far it can be
// relied on; redisview.View is one.
type View interface {
	Read(ctx context.Context, ids []schemas.UserID) ([]redisview.Entry, redisview.Marks, error)
}

// Reader tells the presence of users: from Redis, and where Redis does not know,
// from the durable store. It may be used from any goroutine.
type Reader struct {
	view       View
	durable    store.Reader
	partitions int32
	config     lastseen.Config
	metrics    *lastseen.Metrics
	// watermarks are the newest that were ever read, by partition.
	watermarks []atomic.Int64
}

// NewReader makes a reader. partitions is how many the heartbeats topic has; the
// config has been validated.
func NewReader(view View, durable store.Reader, partitions int32, config lastseen.Config, metrics *lastseen.Metrics) *Reader {
	return &Reader{view: view, durable: durable, partitions: partitions, config: config, metrics: metrics,
		watermarks: make([]atomic.Int64, partitions)}
}

// answer is what is known of a user.
type answer struct {
	schemas.Current
	seen  bool           // something is known
	stale schemas.Millis // stale_since, 0 = not stale
}

func (a *answer) presence(id schemas.UserID) schemas.Presence {
	if !a.seen {
		return schemas.NeverSeen(id, a.stale)
	}
	return schemas.PresenceOf(a.Current, a.stale)
}

// Read tells the presence of the users, in their order, hidden ones hidden. An
// error means that neither store could tell.
func (r *Reader) Read(ctx context.Context, ids []schemas.UserID) ([]schemas.Presence, error) {
	answers, err := r.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	users := make([]schemas.Presence, len(ids))
	for i := range answers {
		users[i] = answers[i].presence(ids[i])
	}
	return users, nil
}

func (r *Reader) read(ctx context.Context, ids []schemas.UserID) ([]answer, error) {
	entries, marks := r.fromRedis(ctx, ids)
	now := schemas.MillisOf(time.Now())
	answers := make([]answer, len(ids))
	var open []int // places that Redis does not settle
	for i, id := range ids {
		partition := schemas.PartitionOf(id, r.partitions)
		mark, known := marks[partition]
		known = known && !mark.Rebuilding
		answers[i].stale = r.staleSince(now, partition, mark, known)
		if e := &entries[i]; known && e.Found && e.Epoch >= mark.Epoch && e.Complete() {
			answers[i].Current, answers[i].seen = e.Current, true
			continue
		}
		open = append(open, i)
	}
	if len(open) > 0 {
		if err := r.ask(ctx, ids, entries, marks, answers, open); err != nil {
			return nil, err
		}
	}
	if r.config.HiddenOffline {
		for i := range answers {
			answers[i].Current = asOffline(answers[i].Current)
		}
	}
	r.count(answers, len(open))
	return answers, nil
}

// fromRedis returns empty entries and no marks when Redis does not answer.
func (r *Reader) fromRedis(ctx context.Context, ids []schemas.UserID) ([]redisview.Entry, redisview.Marks) {
	within, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
	defer cancel()
	entries, marks, err := r.view.Read(within, ids)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // else whoever asked has gone
		// Not logged: it would be once a read. stale_since and the metric say it.
		r.metrics.ReadRedisLost.Inc()
	}
	if err != nil {
		return make([]redisview.Entry, len(ids)), nil
	}
	return entries, marks
}

// staleSince is since when the answers about a partition may be out of date, or
// 0. The watermark is the broker's time, now this machine's.
func (r *Reader) staleSince(now schemas.Millis, partition int32, mark redisview.Mark, known bool) schemas.Millis {
	newest := &r.watermarks[partition]
	if known {
		if last := newest.Load(); int64(mark.Watermark) > last {
			newest.CompareAndSwap(last, int64(mark.Watermark)) // who loses the race knows about as much
		}
		if now-mark.Watermark <= schemas.Millis(r.config.StaleAfter.Milliseconds()) {
			return 0
		}
	}
	if last := newest.Load(); last > 0 {
		return schemas.Millis(last)
	}
	return now
}

// asOffline is c, or of a hidden user what it looks like when it is shown as offline since
// the hide.
func asOffline(c schemas.Current) schemas.Current {
	if c.Visibility != schemas.Nobody {
		return c
	}
	return schemas.Current{User: c.User, State: schemas.Offline, Since: c.Since, LastSeen: c.LastSeen, LastActive: c.LastActive,
		Visibility: schemas.Everyone, Version: c.Hidden}
}

// ask settles the open places from the durable store.
func (r *Reader) ask(ctx context.Context, ids []schemas.UserID, entries []redisview.Entry, marks redisview.Marks,
	answers []answer, open []int,
) error {
	wanted := make([]schemas.UserID, len(open))
	for n, i := range open {
		wanted[n] = ids[i]
	}
	slices.Sort(wanted)
	durable, err := r.durable.Users(ctx, slices.Compact(wanted))
	for _, i := range open {
		mark, known := marks[schemas.PartitionOf(ids[i], r.partitions)]
		known = known && !mark.Rebuilding
		if err != nil {
			// A partition that was rebuilt has everybody who is not offline.
			if !known {
				return err
			}
			answers[i].stale = max(answers[i].stale, mark.Watermark, 1)
		}
		e := entries[i]
		c, found := durable[ids[i]]
		answers[i].Current, answers[i].seen = together(e, c), found || e.Found
		met := e.Found && e.Epoch >= mark.Epoch
		if known && !met && answers[i].stale == 0 && r.contradicts(c, mark) {
			answers[i].stale = mark.Watermark
		}
	}
	return nil
}

// together is the newest that is known of a user from Redis and the durable
// store, each completed by the other.
func together(e redisview.Entry, c schemas.Current) schemas.Current {
	if !e.Found || c.Version >= e.Version {
		return c
	}
	newest := e.Current
	switch {
	case newest.Since != 0:
		newest.LastSeen, newest.LastActive = max(newest.LastSeen, c.LastSeen), max(newest.LastActive, c.LastActive)
	default: // its times may be of when the user hid
		newest.LastSeen, newest.LastActive = c.LastSeen, c.LastActive
		if c.State == newest.State || c.Visibility == schemas.Nobody && newest.Visibility == schemas.Nobody {
			newest.Since = c.Since
		}
	}
	if newest.Visibility == schemas.Nobody && newest.Hidden == 0 {
		newest.Hidden = c.Hidden
		if c.Hidden == 0 {
			newest.Hidden = newest.Version
		}
	}
	return newest
}

// contradicts tells whether the durable store says of a user of whom Redis says
// nothing that it is here, although Redis should know by now: the store is
// behind, or Redis has evicted the user. Of a hidden user it is not said, since it would
// tell that the user is here.
func (r *Reader) contradicts(c schemas.Current, mark redisview.Mark) bool {
	return c.Visibility != schemas.Nobody && c.State > schemas.Offline && c.Since < mark.Watermark-schemas.Millis(r.config.StaleAfter.Milliseconds())
}

func (r *Reader) count(answers []answer, fromStore int) {
	r.metrics.ReadUsers.WithLabelValues("redis").Add(float64(len(answers) - fromStore))
	r.metrics.ReadUsers.WithLabelValues("store").Add(float64(fromStore))
	for i := range answers {
		if answers[i].stale != 0 {
			r.metrics.ReadStale.Inc()
		}
	}
}
