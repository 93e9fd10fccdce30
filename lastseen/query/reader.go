// Package query answers who is online, who was when, and what happened.
package query

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// View is what Redis knows; redisview.View implements it.
type View interface {
	// ReadInto writes the entries of the users, one for each id, and returns the progress to judge
	// them by; after an error they mean nothing.
	ReadInto(ctx context.Context, ids []schemas.UserID, entries []redisview.Entry) (redisview.ProgressMap, error)
	// Seen returns when users were heard last, in their order.
	Seen(ctx context.Context, users []schemas.UserID) ([]redisview.Seen, error)
	// Unsure returns which users no gateway can report, in their order.
	Unsure(ctx context.Context, users []schemas.UserID) ([]redisview.Unsure, error)
	// Counts returns how many users of each partition are present.
	Counts(ctx context.Context) (map[int32]redisview.PartitionCounts, error)
	// CountsOfTenant returns the same of one tenant, without the partitions of which it is not known.
	CountsOfTenant(ctx context.Context, tenant string, partitions int32) (map[int32]redisview.PartitionCounts, error)
	// Denying returns whether users deny the viewer, in their order: the zero value where the list is missing or older
	// than at.
	Denying(ctx context.Context, viewer schemas.UserID, users []schemas.UserID, at []schemas.Version) ([]shown.Denying, error)
	// Denied returns whom a user denies; shown.ErrBehind if the list is missing or older than at.
	Denied(ctx context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error)
}

// Reader reads presence from Redis and, where Redis does not know, from the durable store. All
// methods may be called from any goroutine.
type Reader struct {
	view       View
	durable    store.Reader
	partitions int32
	config     lastseen.Config
	metrics    *lastseen.Metrics
	readUsers  [2]prometheus.Counter // of Redis and of the store
	// watermarks are the newest ever read, by partition.
	watermarks []atomic.Int64
	// policyOf is that of Follow.
	policyOf atomic.Pointer[func(tenant string) schemas.Policy]
}

// NewReader makes a reader. partitions is that of the heartbeats topic; config must be valid.
func NewReader(view View, durable store.Reader, partitions int32, config lastseen.Config, metrics *lastseen.Metrics) *Reader {
	return &Reader{view: view, durable: durable, partitions: partitions, config: config, metrics: metrics,
		readUsers:  [2]prometheus.Counter{metrics.ReadUsers.WithLabelValues("redis"), metrics.ReadUsers.WithLabelValues("store")},
		watermarks: make([]atomic.Int64, partitions)}
}

// answer is what is known of a user.
type answer struct {
	schemas.Current
	seen   bool            // something is known
	denied bool            // it is that of a hidden user, because of the viewer
	erased schemas.Version // the version that erased the user, while Redis remembers it
	stale  schemas.Millis  // stale_since, 0 = not stale
	unsure schemas.Millis  // unsure_since, 0 = sure
	// name is redisview.NameSum of the name that Redis has for the user; 0: none.
	name uint64
	upTo schemas.Millis // everything up to this log time is in the answer; 0 = not known
}

func (a *answer) presence(id schemas.UserID) schemas.Presence {
	if !a.seen {
		return schemas.NeverSeen(id, a.stale)
	}
	p := schemas.PresenceOf(a.Current, a.stale, schemas.MillisOf(time.Now()))
	if a.present() {
		p.UnsureSince = a.unsure
	}
	return p
}

// Read returns the presence of the users, in their order; hidden users look hidden. An erased user looks
// like one never seen, but has the version of the erasure while Redis remembers it, so that the live
// stream can order it. names are those remembered of the users, in their order; nil: none is. A user whom the
// stores know by another name looks hidden. An error means that neither store answered.
func (r *Reader) Read(ctx context.Context, ids []schemas.UserID, names []schemas.Name) ([]schemas.Presence, error) {
	answers, err := r.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range answers { // a stream reads users of several tenants at once
		var v Viewer
		if i < len(names) {
			v.tenant = names[i].Tenant
		}
		r.show(v, ids[i:i+1], answers[i:i+1])
	}
	r.onlyOf(ctx, names, answers)
	r.addUnsure(ctx, ids, answers)
	users := make([]schemas.Presence, len(ids))
	for i := range answers {
		answers[i].User = ids[i]
		users[i] = answers[i].ordered()
	}
	return users, nil
}

// ordered is presence with the version of an erasure.
func (a *answer) ordered() schemas.Presence {
	p := a.presence(a.User)
	if a.erased != 0 {
		p.Version = a.erased.String()
	}
	return p
}

// readFor is read as the viewer sees it.
func (r *Reader) readFor(ctx context.Context, v Viewer, ids []schemas.UserID) ([]answer, error) {
	answers, err := r.read(ctx, ids)
	if err == nil {
		err = r.withhold(ctx, v, ids, answers)
	}
	r.show(v, ids, answers)
	return answers, err
}

// show makes of what is known what the viewer sees.
func (r *Reader) show(v Viewer, ids []schemas.UserID, answers []answer) {
	r.limit(v.tenant, answers)
	for i := range answers {
		switch c := &answers[i].Current; {
		case v.seesHidden(ids[i]):
			c.Visibility, c.Override.LastSeen = schemas.Everyone, 0
		case c.Visibility == schemas.Nobody && r.config.HiddenOffline:
			*c = asOffline(*c)
		}
	}
}

// Follow makes policyOf the policy of a tenant's users. Any goroutine may call it.
func (r *Reader) Follow(policyOf func(tenant string) schemas.Policy) { r.policyOf.Store(&policyOf) }

// limit makes of what users let others learn of when they were last here what they learn under the policy of their tenant.
// Transitions from before the policy, or from under another one, do not say it.
func (r *Reader) limit(tenant string, answers []answer) {
	of := r.policyOf.Load()
	coarse := of != nil && (*of)(tenant).CoarseLastSeen
	for i := range answers {
		answers[i].Override.Limit(coarse)
	}
}

// read returns what is known of the users, also of hidden ones.
func (r *Reader) read(ctx context.Context, ids []schemas.UserID) ([]answer, error) {
	entries := make([]redisview.Entry, len(ids))
	return r.judge(ctx, ids, entries, r.fromRedis(ctx, ids, entries))
}

// judge is read with what Redis says.
func (r *Reader) judge(ctx context.Context, ids []schemas.UserID, entries []redisview.Entry, progress redisview.ProgressMap,
) ([]answer, error) {
	now := schemas.MillisOf(time.Now())
	answers := make([]answer, len(ids))
	var unresolved []int // indexes that Redis does not settle
	for i, id := range ids {
		partition := schemas.PartitionOf(id, r.partitions)
		progress, known := progress[partition]
		known = known && !progress.Rebuilding
		if answers[i].stale = r.staleSince(now, partition, progress, known); known {
			answers[i].upTo = progress.Watermark
		}
		answers[i].name = entries[i].NameSum
		if e := &entries[i]; known && settles(e, progress) {
			answers[i].Current, answers[i].seen = e.Current, true
			continue
		}
		if e := &entries[i]; known && e.Erased && e.Epoch >= progress.Epoch {
			answers[i].erased = e.Version // nothing is known, whatever the store still has
			continue
		}
		unresolved = append(unresolved, i)
	}
	if len(unresolved) > 0 {
		if err := r.readStore(ctx, ids, entries, progress, answers, unresolved); err != nil {
			return nil, err
		}
	}
	r.count(answers, len(unresolved))
	return answers, nil
}

// settles reports whether an entry of a partition that is not being rebuilt needs no other source.
func settles(e *redisview.Entry, progress redisview.Progress) bool {
	return e.Found && e.Epoch >= progress.Epoch && e.Complete()
}

// fromRedis returns empty entries and no progress if Redis does not answer.
func (r *Reader) fromRedis(ctx context.Context, ids []schemas.UserID, entries []redisview.Entry) redisview.ProgressMap {
	within, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
	defer cancel()
	progress, err := r.view.ReadInto(within, ids, entries)
	if err != nil {
		r.lost(ctx)
		clear(entries)
		return nil
	}
	return progress
}

// lost counts a read that Redis did not answer, unless the caller has left. It is not logged, since it
// would be once per read: stale_since and the metric report it.
func (r *Reader) lost(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		r.metrics.ReadRedisLost.Inc()
	}
}

// staleSince is since when answers about a partition may be out of date, or 0. The watermark is
// the broker's time, now this machine's.
func (r *Reader) staleSince(now schemas.Millis, partition int32, progress redisview.Progress, known bool) schemas.Millis {
	if known {
		r.note(partition, progress)
		if now-progress.Watermark <= schemas.Millis(r.config.StaleAfter.Milliseconds()) {
			return 0
		}
	}
	if last := r.watermarks[partition].Load(); last > 0 {
		return schemas.Millis(last)
	}
	return now
}

// note keeps the watermark of a partition.
func (r *Reader) note(partition int32, progress redisview.Progress) {
	latest := &r.watermarks[partition]
	if last := latest.Load(); int64(progress.Watermark) > last {
		latest.CompareAndSwap(last, int64(progress.Watermark)) // who loses the race knows about as much
	}
}

// Watch notes how far Redis is, twice in StaleAfter, until ctx ends. Without it an answer after the loss of
// Redis would be stale since the last read before it, which may be long ago in a process with few reads.
// Call it once. Its error is always nil.
func (r *Reader) Watch(ctx context.Context) error {
	var entry [1]redisview.Entry
	for range tick.Now(ctx, r.config.StaleAfter/2) {
		within, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
		progress, err := r.view.ReadInto(within, []schemas.UserID{1}, entry[:]) // the progress is of all partitions
		cancel()
		for partition, p := range progress {
			if err == nil && !p.Rebuilding && partition < r.partitions {
				r.note(partition, p)
			}
		}
	}
	return nil
}

// asOffline shows a hidden user as offline since the hide.
func asOffline(c schemas.Current) schemas.Current {
	return schemas.Current{User: c.User, State: schemas.Offline, Since: c.Since, LastSeen: c.LastSeen, LastActive: c.LastActive,
		Visibility: schemas.Everyone, Version: c.Hidden, Override: c.Override.ForOthers()}
}

// readStore completes the unresolved answers from the durable store.
func (r *Reader) readStore(ctx context.Context, ids []schemas.UserID, entries []redisview.Entry, progress redisview.ProgressMap,
	answers []answer, unresolved []int,
) error {
	wanted := make([]schemas.UserID, len(unresolved))
	for n, i := range unresolved {
		wanted[n] = ids[i]
	}
	slices.Sort(wanted)
	durable, err := r.durable.Users(ctx, slices.Compact(wanted))
	for _, i := range unresolved {
		progress, known := progress[schemas.PartitionOf(ids[i], r.partitions)]
		known = known && !progress.Rebuilding
		if err != nil {
			// A partition that was rebuilt has everybody who is not offline.
			if !known {
				return err
			}
			answers[i].stale = max(answers[i].stale, progress.Watermark, 1)
		}
		e := entries[i]
		c, found := durable[ids[i]]
		if e.Erased && c.Version <= e.Version {
			answers[i].erased = e.Version
			continue
		}
		answers[i].Current, answers[i].seen = newest(e, c), found || e.Found
		confirmed := e.Found && e.Epoch >= progress.Epoch
		if known && !confirmed && answers[i].stale == 0 && r.contradicts(answers[i].Current, progress) {
			answers[i].stale = progress.Watermark
		}
	}
	return nil
}

// newest merges what Redis and the durable store know of a user.
func newest(e redisview.Entry, c schemas.Current) schemas.Current {
	if !e.Found || store.Has(c, e.Current) {
		if c.Version < e.Version { // the store may not have the change of it
			c.Override.LastSeen = e.Override.LastSeen
			c.Override.Audience = max(e.Override.Audience, c.Override.Audience)
		}
		return c
	}
	n := e.Current
	n.Override.Audience = max(n.Override.Audience, c.Override.Audience)
	switch {
	case n.Since != 0:
		n.LastSeen, n.LastActive = max(n.LastSeen, c.LastSeen), max(n.LastActive, c.LastActive)
	default: // its times may be of when the user hid
		n.LastSeen, n.LastActive = c.LastSeen, c.LastActive
		if c.State == n.State || c.Visibility == schemas.Nobody && n.Visibility == schemas.Nobody {
			n.Since = c.Since
		}
	}
	if n.Visibility == schemas.Nobody && n.Hidden == 0 {
		n.Hidden = c.Hidden
		if c.Hidden == 0 {
			n.Hidden = n.Version
		}
	}
	return n
}

// contradicts reports whether a user is online in the durable store, or in Redis before its rebuild, and missing in
// Redis, although Redis should know by now: the store is behind, Redis has evicted the user, or Kafka was restored.
// It is false for hidden users, whose presence it would reveal.
func (r *Reader) contradicts(c schemas.Current, progress redisview.Progress) bool {
	return c.Visibility != schemas.Nobody && c.State > schemas.Offline && c.Since < progress.Watermark-schemas.Millis(r.config.StaleAfter.Milliseconds())
}

func (r *Reader) count(answers []answer, fromStore int) {
	r.readUsers[0].Add(float64(len(answers) - fromStore))
	r.readUsers[1].Add(float64(fromStore))
	for i := range answers {
		if answers[i].stale != 0 {
			r.metrics.ReadStale.Inc()
		}
	}
}
