package lastseen

import (
	"time"

	"github.com/stillhere/stillhere/internal/faults"
)

// Config is the service's configuration. Zero values are not defaults: start from Defaults.
type Config struct {
	// SinkRows is how many transitions the sink writes in one transaction at most.
	SinkRows int
	// SinkEvery is the minimum time between two transactions of the sink for one partition, unless
	// SinkRows are waiting.
	SinkEvery time.Duration
	// WriteTimeout bounds one transaction of the sink and one write to Redis.
	WriteTimeout time.Duration
	// AuditRetention is how long the log of changes is kept in the durable store;
	// at least a day. Whole days are dropped.
	AuditRetention time.Duration
	// RedisRetention is how long Redis remembers a user who went offline. After
	// that the durable store answers.
	RedisRetention time.Duration
	// StaleAfter is how old the watermark of a partition may be before answers
	// about its users carry stale_since.
	StaleAfter time.Duration
	// RedisTimeout is how long a read waits for Redis before it asks the durable
	// store.
	RedisTimeout time.Duration
	// ReadTimeout bounds one HTTP read in all.
	ReadTimeout time.Duration
	// HiddenOffline [false]: a hidden user is shown as offline since the hide, not as null.
	HiddenOffline bool
	// NewRedis [false]: Redis was created for this process, so an empty one is no loss.
	NewRedis bool
}

// Defaults are the settings of the design. The log of changes is kept 400 days,
// so that a month can be compared with the same month a year before.
func Defaults() Config {
	return Config{
		SinkRows:       10_000,
		SinkEvery:      100 * time.Millisecond,
		WriteTimeout:   30 * time.Second,
		AuditRetention: 400 * day,
		RedisRetention: 7 * day,
		StaleAfter:     5 * time.Second,
		RedisTimeout:   250 * time.Millisecond,
		ReadTimeout:    2 * time.Second,
	}
}

const (
	day = 24 * time.Hour
	// maxSinkRows keeps the arrays of one statement below some tens of MB.
	maxSinkRows = 100_000
	// maxSinkEvery keeps the sink's lag from looking like a fault.
	maxSinkEvery = time.Minute
)

// Validate returns all faults, joined, each with its setting.
func (c Config) Validate() error {
	var all faults.List
	all.If(c.SinkRows < 1 || c.SinkRows > maxSinkRows, "sink_rows: must be between 1 and %d, is %d", maxSinkRows, c.SinkRows)
	all.If(c.SinkEvery < 0 || c.SinkEvery > maxSinkEvery, "sink_every: must be between 0 and %s, is %s", maxSinkEvery, c.SinkEvery)
	all.If(c.WriteTimeout <= 0, "write_timeout: must be positive, is %s", c.WriteTimeout)
	all.If(c.AuditRetention < day, "audit_retention: must be at least 24h, is %s", c.AuditRetention)
	all.If(c.RedisRetention < time.Minute, "redis_retention: must be at least 1m, is %s", c.RedisRetention)
	all.If(c.StaleAfter < time.Second, "stale_after: must be at least 1s, for watermarks move once a second; is %s", c.StaleAfter)
	all.If(c.RedisTimeout <= 0, "redis_timeout: must be positive, is %s", c.RedisTimeout)
	all.If(c.ReadTimeout <= c.RedisTimeout, "read_timeout: must be longer than redis_timeout (%s), so that the durable store can still answer; is %s",
		c.RedisTimeout, c.ReadTimeout)
	return all.Err()
}
