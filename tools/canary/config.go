package canary

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/schemas"
)

// The default users. They are the two largest ids, so no sequence of ids that starts at 1 and no
// random id ever collides with them. Reserve them, and 98 below them for the canaries of other regions.
const (
	DefaultUser   schemas.UserID = 1<<63 - 1
	DefaultSilent schemas.UserID = 1<<63 - 2
)

// DefaultName is the name of the default user in pipelines with --ids text. Reserve it, and that followed by
// -silent, in the tenant of the canary.
const DefaultName = "stillhere-canary"

// User is a user of the canary. In pipelines with --ids text it has a Name, and ID counts for Config.Log alone.
// An empty tenant is that of the token, or the default one; with Config.Log the tenant must be given.
type User struct {
	ID   schemas.UserID
	Name schemas.Name
}

// String is what people call the user.
func (u User) String() string {
	if u.named() {
		return u.Name.String()
	}
	return u.ID.String()
}

func (u User) named() bool { return u.Name != schemas.Name{} }

// key is what the stream and requests call the user.
func (u User) key() string {
	if u.named() {
		return u.Name.Text
	}
	return u.ID.String()
}

// check reports what makes u unfit; field names it.
func (u User) check(field string, replays bool) error {
	if u.named() {
		if err := u.Name.Check(field); err != nil || !replays || u.ID.Valid() {
			return err
		}
		return schemas.Invalid(field, "must have its id, under which presence.transitions has it")
	}
	if !u.ID.Valid() {
		return schemas.Invalid(field, "must be between 1 and 9223372036854775807")
	}
	return nil
}

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
	// User says bye in each round, Silent falls silent. Nobody else may be called as they are. Both have
	// names, of one tenant, or none has.
	User, Silent User
	// Interval is the time from the start of a round to the start of the next, if the round is over.
	Interval time.Duration
	// Timeout bounds each step; a silent user may be so late.
	Timeout time.Duration
	// Policy returns the policy in force for the users. Any goroutine may call it.
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
	var all faults.List
	all.Add(c.Ingest.Validate(), c.Reads.Validate())
	all.Add(c.User.check("user", c.Log != nil), c.Silent.check("silent_user", c.Log != nil))
	all.Field(c.User.key() == c.Silent.key(), "silent_user", "must be another user than user")
	all.Field(c.User.named() != c.Silent.named() || c.User.Name.Tenant != c.Silent.Name.Tenant, "silent_user",
		"must have a name of the tenant of user if that has one")
	all.Field(c.Interval < minInterval || c.Interval > time.Hour, "interval", "must be between 5s and 1h")
	all.Field(c.Timeout < 100*time.Millisecond || c.Timeout > time.Minute, "timeout", "must be between 100ms and 1m")
	all.Field(c.Policy == nil, "policy", "must be set")
	return all.Err()
}
