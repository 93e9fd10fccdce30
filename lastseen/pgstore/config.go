package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/postgres"
)

// Config is the address of a Postgres, its limits and the retention. Start from Defaults.
type Config struct {
	postgres.Config

	// AuditRetention is how long changes are kept; whole UTC days are dropped.
	AuditRetention time.Duration
	// DaysAhead is how many days after today have their partition made in advance.
	DaysAhead int
	// MaintainEvery is the pause between two rounds of Run.
	MaintainEvery time.Duration
}

// Defaults are settings for one process of the service.
func Defaults() Config {
	return Config{
		Config: postgres.Config{
			MaxConns:         16,
			ConnectTimeout:   3 * time.Second,
			StatementTimeout: 30 * time.Second,
			LockTimeout:      5 * time.Second,
			IdleTimeout:      30 * time.Second,
		},
		AuditRetention: 400 * day,
		DaysAhead:      3,
		MaintainEvery:  time.Hour,
	}
}

const (
	day = 24 * time.Hour
	// application is the name of these connections in pg_stat_activity.
	application = "stillhere-lastseen"
)

// Validate returns all faults, joined, each with its setting; never the password of the URL.
func (c Config) Validate() error {
	var all faults.List
	all.Add(c.Config.Validate())
	all.If(c.MaintainEvery < time.Millisecond, "postgres_maintain_every: must be at least 1ms, is %s", c.MaintainEvery)
	all.If(c.AuditRetention < day, "audit_retention: must be at least 24h, is %s", c.AuditRetention)
	all.If(c.DaysAhead < 1, "postgres_days_ahead: must be at least 1, is %d", c.DaysAhead)
	return all.Err()
}

// pool is the pool's configuration.
func (c Config) pool() (*pgxpool.Config, error) {
	pool, err := c.Pool(application)
	if err != nil {
		return nil, err
	}
	pool.AfterConnect = registerEnums
	// Postgres would compile the upsert of a large batch, which took a sixth of the time of 10,000
	// rows.
	postgres.Prefer(pool.ConnConfig, map[string]string{"jit": "off"})
	return pool, nil
}
