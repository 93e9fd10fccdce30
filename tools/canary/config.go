package canary

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/schemas"
)

// The default users. They are the two largest ids, so no sequence of ids that starts at 1 and no
// random id ever collides with them. Reserve them, and 98 below them for the canaries of other regions.
const (
	DefaultUser   schemas.UserID = 1<<63 - 1
	DefaultSilent schemas.UserID = 1<<63 - 2
)

// Log reads presence.transitions.
type Log interface {
	Partitions(ctx context.Context) (int32, error)
	// Bounds are the first offset of the partition and the one after the last.
	Bounds(ctx context.Context, partition int32) (start, end int64, err error)
	// Read calls each for the committed records from offset from up to but without to, in order.
	Read(ctx context.Context, partition int32, from, to int64, each func(*schemas.Record) error) error
}

// Config configures a Canary. All but Log, Registry and Logger are required.
type Config struct {
	Ingest client.HTTP // where heartbeats go
	Reads  client.HTTP // where reads and the stream are
	// User says bye in each round, Silent falls silent. Nobody else may use their ids.
	User, Silent schemas.UserID
	// Interval is the time from the start of a round to the start of the next, if the round is over.
	Interval time.Duration
	// Timeout bounds each step; a silent user may be so late.
	Timeout time.Duration
	// Policy returns the policy in force. Any goroutine may call it.
	Policy func() schemas.Policy
	// Log is read in the step replay; nil: the step is left out.
	Log Log
	// Registry is where metrics are registered; nil: nowhere.
	Registry prometheus.Registerer
	// Logger is where failures are logged [slog.Default].
	Logger *slog.Logger
}

// minInterval keeps two changes in a round within what the policy publishes of one user at once:
// one change in two seconds by default.
const minInterval = 5 * time.Second

// Validate reports all faults, joined.
func (c Config) Validate() error {
	faults := []error{c.Ingest.Validate(), c.Reads.Validate()}
	fault := func(wrong bool, field, reason string) {
		if wrong {
			faults = append(faults, schemas.Invalid(field, reason))
		}
	}
	fault(c.User < 1, "user", "must be between 1 and 9223372036854775807")
	fault(c.Silent < 1, "silent_user", "must be between 1 and 9223372036854775807")
	fault(c.User == c.Silent, "silent_user", "must be another user than user")
	fault(c.Interval < minInterval || c.Interval > time.Hour, "interval", "must be between 5s and 1h")
	fault(c.Timeout < 100*time.Millisecond || c.Timeout > time.Minute, "timeout", "must be between 100ms and 1m")
	fault(c.Policy == nil, "policy", "must be set")
	return errors.Join(faults...)
}
