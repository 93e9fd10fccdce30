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
	// Most is how many followers of a user the cache reads. Of users with more it only notes that.
	Most int
	// IDs bounds the followers in the cache.
	IDs int
	// TTL bounds the age of an entry.
	TTL time.Duration
	// Listed makes the cache read who is on the list, and only those users' followers.
	Listed bool
}

// Followers is what the planner must know of a user.
type Followers struct {
	// IDs are the followers, ascending; none if there are Many. The slice is shared and read-only.
	IDs []schemas.UserID
	// Many says that there are more than CacheConfig.Most.
	Many bool
	// Listed says that the user is on the list. It is false without CacheConfig.Listed.
	Listed bool
}

// cached is the part of a Store that a Cache needs.
type cached interface {
	Heads(ctx context.Context, users []schemas.UserID, most int) ([][]schemas.UserID, error)
	Listed(ctx context.Context, users []schemas.UserID) ([]bool, error)
	Watch(ctx context.Context, changed func(schemas.UserID)) error
}

// Cache holds the followers of users who changed state recently. Any goroutine may use it. While
// Run does not run or cannot watch, the cache stays empty.
type Cache struct {
	config CacheConfig
	store  cached
	log    *slog.Logger

	mu       sync.Mutex
	entries  map[schemas.UserID]*list.Element // of *entry
	recent   *list.List                       // most recently used first
	ids      int
	watching bool
	changes  uint64 // counts removals: what was read before one must not be stored
}

type entry struct {
	user  schemas.UserID
	until time.Time
	Followers
}

// overhead is the size of an entry without followers, in ids.
const overhead = 16

// NewCache makes a Cache.
func NewCache(config CacheConfig, store cached, log *slog.Logger) *Cache {
	return &Cache{config: config, store: store, log: log, entries: map[schemas.UserID]*list.Element{}, recent: list.New()}
}

// Run removes what changes until ctx ends.
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
		c.log.Warn("watching the follower graph failed; the cache stays empty until the watch begins again",
			"error", err, "retry_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
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
	removed := c.recent.Remove(e).(*entry)
	delete(c.entries, removed.user)
	c.ids -= len(removed.IDs) + overhead
}

// Of returns the followers of users, in their order.
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
			c.add(&entry{missing[i], now.Add(c.config.TTL), f})
		}
	}
	return all, nil
}

func (c *Cache) read(ctx context.Context, users []schemas.UserID) ([]Followers, error) {
	all := make([]Followers, len(users))
	asked := make([]schemas.UserID, 0, len(users))
	positions := make([]int, 0, len(users)) // of asked
	var listed []bool
	if c.config.Listed {
		var err error
		if listed, err = c.store.Listed(ctx, users); err != nil {
			return nil, err
		}
	}
	for i, user := range users {
		if all[i].Listed = listed != nil && listed[i]; listed == nil || listed[i] {
			asked, positions = append(asked, user), append(positions, i)
		}
	}
	if len(asked) == 0 {
		return all, nil
	}
	heads, err := c.store.Heads(ctx, asked, c.config.Most+1)
	if err != nil {
		return nil, err
	}
	for i, head := range heads {
		f := &all[positions[i]]
		if f.Many = len(head) > c.config.Most; !f.Many {
			f.IDs = head
		}
	}
	return all, nil
}

func (c *Cache) add(e *entry) {
	if old := c.entries[e.user]; old != nil {
		c.drop(old)
	}
	c.entries[e.user] = c.recent.PushFront(e)
	for c.ids += len(e.IDs) + overhead; c.ids > c.config.IDs; {
		c.drop(c.recent.Back())
	}
}
