package expand

import (
	"time"

	"github.com/stillhere/stillhere/internal/faults"
)

// Mode says whose followers receive deliveries.
type Mode string

// The modes.
const (
	Off    Mode = "off"    // nobody's
	Listed Mode = "listed" // of users on the list in the graph's store
	All    Mode = "all"    // everybody's
)

// Config are the settings of planner and workers. Start from Defaults.
type Config struct {
	// Mode [off] says whose followers receive deliveries.
	Mode Mode
	// HighFollower [10,000] is how many followers the planner expands itself. For users with more
	// it writes jobs.
	HighFollower int
	// JobFollowers [50,000] is how many followers a job has.
	JobFollowers int
	// Everyone [off] delivers to offline followers as well.
	Everyone bool
	// HiddenOffline [false] shows a hidden user as offline since the hide: followers see the hide
	// as going offline and the show as coming online.
	HiddenOffline bool
	// Rate [1,000,000] is how many followers per second the workers of a process read, so that
	// the machine and Kafka stay free for other work. 0: no limit.
	Rate float64
	// Gap [1s] is the least time between two expansions of one user with followers. Of the changes
	// in between the newest is delivered at its end. 0: none.
	Gap time.Duration
	// Parallel [2] is how many jobs a process runs at the same time.
	Parallel int
	// MaxAge [1h] is how old a transition may be to be delivered. Transitions are older after
	// fan-out was switched on or was away for long.
	MaxAge time.Duration
	// CacheFollowers [5,000,000] bounds the followers in memory, 8 bytes each. CacheTTL [10s]
	// bounds how late a follow that other programs insert by SQL is seen. Unfollows are seen at
	// once.
	CacheFollowers int
	CacheTTL       time.Duration
}

// Defaults are the documented defaults.
func Defaults() Config {
	return Config{Mode: Off, HighFollower: 10_000, JobFollowers: 50_000, Rate: 1_000_000, Gap: time.Second, Parallel: 2, MaxAge: time.Hour,
		CacheFollowers: 5_000_000, CacheTTL: 10 * time.Second}
}

// Validate reports everything that is wrong, joined.
func (c Config) Validate() error {
	var all faults.List
	all.If(c.Mode != Off && c.Mode != Listed && c.Mode != All, "followers: must be off, listed or all, is %q", c.Mode)
	all.If(c.HighFollower < 1 || c.HighFollower > 100_000, "high_follower: must be between 1 and 100000, is %d", c.HighFollower)
	// A job is one batch of the processor; everything else in the process waits for it.
	all.If(c.JobFollowers < 1 || c.JobFollowers > 1_000_000, "job_followers: must be between 1 and 1000000, is %d", c.JobFollowers)
	all.If(c.Rate < 0 || c.Rate > 0 && c.Rate < float64(c.JobFollowers), "fanout_rate: must be 0 or at least the followers of a job (%d) a second, is %g", c.JobFollowers, c.Rate)
	all.If(c.Gap < 0 || c.Gap > time.Minute, "fanout_gap: must be between 0 and 1m, is %s", c.Gap)
	all.If(c.Parallel < 1 || c.Parallel > 64, "parallel: must be between 1 and 64, is %d", c.Parallel)
	all.If(c.MaxAge < time.Second, "fanout_max_age: must be at least 1s, is %s", c.MaxAge)
	all.If(c.CacheFollowers < 1, "fanout_cache: must be positive, is %d", c.CacheFollowers)
	all.If(c.CacheTTL < 0, "fanout_cache_ttl: must not be negative, is %s", c.CacheTTL)
	return all.Err()
}
