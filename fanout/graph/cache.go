package graph

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// CacheConfig are the settings of a Cache.
type CacheConfig struct {
	// Most is how many followers make a user one with many: of those only that is
	// kept.
	Most int
	// IDs bounds the followers kept, in all.
	IDs int
	// TTL bounds how old an entry may be.
	TTL time.Duration
	// Listed asks for the list of users too.
	Listed bool
}

// Followers is what the planner must know of a user.
type Followers struct {
	// IDs are the followers, ascending; they are shared and must not be altered.
	// None when there are Many.
	IDs []schemas.UserID
	// Many says that there are more than CacheConfig.Most.
	Many bool
	// Listed says that the user is on the list; false where that was not asked.
	Listed bool
}

// cached is the part of a Store that a Cache needs.
type cached interface {
	Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error)
	Listed(ctx context.Context, users []schemas.UserID) ([]bool, error)
	Watch(ctx context.Context, changed func(schemas.UserID)) error
}

// Cache keeps the followers of users who changed state recently. Any goroutine may
// use it. While Run does not run, or cannot watch, it keeps nothing.
type Cache struct {
	config CacheConfig
	store  cached
	log    *slog.Logger

	mu       sync.Mutex
	entries  map[schemas.UserID]*list.Element // of *entry
	recent   *list.List                       // most recently used first
	ids      int
	watching bool
	changes  uint64 // counts what was forgotten: what was read before must not be kept
}

type entry struct {
	user  schemas.UserID
	until time.Time
	Followers
}

// overhead is what an entry without followers counts for, in ids.
const overhead = 16

// NewCache makes a Cache.
func NewCache(config CacheConfig, store cached, log *slog.Logger) *Cache {
	return &Cache{config: config, store: store, log: log, entries: map[schemas.UserID]*list.Element{}, recent: list.New()}
}

// Run keeps the cache true until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		begun := time.Now()
		err := c.store.Watch(ctx, c.changed)
		c.mu.Lock()
		c.watching = false
		c.clear()
		c.mu.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > time.Minute {
			wait = time.Second
		}
		c.log.Warn("the graph is not watched, so nothing of it is cached", "error", err, "again in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

func (c *Cache) changed(user schemas.UserID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching = true
	if user == 0 {
		c.clear()
		return
	}
	c.changes++
	if e := c.entries[user]; e != nil {
		c.drop(e)
	}
}

func (c *Cache) clear() {
	c.changes++
	clear(c.entries)
	c.recent.Init()
	c.ids = 0
}

func (c *Cache) drop(e *list.Element) {
	kept := c.recent.Remove(e).(*entry)
	delete(c.entries, kept.user)
	c.ids -= len(kept.IDs) + overhead
}

// Of gives the followers of users, in their order.
func (c *Cache) Of(ctx context.Context, users []schemas.UserID) ([]Followers, error) {
	all := make([]Followers, len(users))
	var missing []schemas.UserID
	var positions []int
	now := time.Now()
	c.mu.Lock()
	for i, user := range users {
		e := c.entries[user]
		if e == nil || !now.Before(e.Value.(*entry).until) {
			missing, positions = append(missing, user), append(positions, i)
			continue
		}
		c.recent.MoveToFront(e)
		all[i] = e.Value.(*entry).Followers
	}
	changes := c.changes
	c.mu.Unlock()
	if len(missing) == 0 {
		return all, nil
	}
	read, err := c.read(ctx, missing)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range read {
		all[positions[i]] = f
		if c.watching && c.changes == changes {
			c.keep(&entry{missing[i], now.Add(c.config.TTL), f})
		}
	}
	return all, nil
}

func (c *Cache) read(ctx context.Context, users []schemas.UserID) ([]Followers, error) {
	all := make([]Followers, len(users))
	asked := users
	if c.config.Listed {
		listed, err := c.store.Listed(ctx, users)
		if err != nil {
			return nil, err
		}
		asked = nil
		for i, on := range listed {
			all[i].Listed = on
			if on {
				asked = append(asked, users[i])
			}
		}
	}
	if len(asked) == 0 {
		return all, nil
	}
	heads, err := c.store.Heads(ctx, asked, c.config.Most+1)
	if err != nil {
		return nil, err
	}
	for i, next := 0, 0; i < len(users) && next < len(heads); i++ {
		if users[i] != asked[next] {
			continue
		}
		if all[i].Many = len(heads[next]) > c.config.Most; !all[i].Many {
			all[i].IDs = heads[next]
		}
		next++
	}
	return all, nil
}

func (c *Cache) keep(e *entry) {
	if old := c.entries[e.user]; old != nil {
		c.drop(old)
	}
	c.entries[e.user] = c.recent.PushFront(e)
	for c.ids += len(e.IDs) + overhead; c.ids > c.config.IDs; {
		c.drop(c.recent.Back())
	}
}
