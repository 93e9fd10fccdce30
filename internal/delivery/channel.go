package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// Channel delivers notices to people.
type Channel interface {
	// Deliver delivers n to its recipients. Several goroutines call it, but for one user one at a
	// time. After an error it is called again, after a pause, with the same n or with fewer
	// recipients. Permanent marks errors for which that is pointless; After says how long to wait.
	// It returns when ctx ends, after Config.Timeout.
	Deliver(ctx context.Context, n schemas.Notice) error
}

// Notice is a delivery to those of its recipients who have not received it and may. It must not be modified.
type Notice struct {
	// ID is the same whenever the same notice comes again.
	ID string
	*schemas.Delivery
}

// Shown is n as a Channel gets it: with what users are called.
func (n Notice) Shown(users identity.Users) schemas.Notice {
	t := n.Transition
	if n.Names != nil || t.Name != (schemas.Name{}) {
		users = identity.Named(identity.Key{}) // clients do not configure that users have names
	}
	shown := schemas.Notice{ID: n.ID, Transition: t, User: users.Called(t.User, t.Name)}
	if n.Recipients != nil {
		shown.Recipients = make([]string, 0, len(n.Recipients))
	}
	for i, id := range n.Recipients {
		var name schemas.Name
		if i < len(n.Names) {
			name.Text = n.Names[i]
		}
		if name = users.Called(id, name); name.Text != "" {
			shown.Recipients = append(shown.Recipients, name.Text)
		}
	}
	return shown
}

// to is d to some of its recipients; both ascend.
func to(some []schemas.UserID, d *schemas.Delivery) *schemas.Delivery {
	part := &schemas.Delivery{Transition: d.Transition, Recipients: some}
	for i, name := range d.Names {
		if n := len(part.Names); n < len(some) && some[n] == d.Recipients[i] {
			part.Names = append(part.Names, name)
		}
	}
	return part
}

// Permanent marks an error after which another try is pointless.
func Permanent(err error) error { return &permanent{err} }

type permanent struct{ error }

func (p *permanent) Unwrap() error { return p.error }

// IsPermanent reports whether another try is pointless.
func IsPermanent(err error) bool { return errors.As(err, new(*permanent)) }

// After marks an error after which the next try should wait that long.
func After(wait time.Duration, err error) error { return &after{err, wait} }

type after struct {
	error
	wait time.Duration
}

func (a *after) Unwrap() error { return a.error }

// WaitOf returns how long the next try should wait by After; false when err does not say.
func WaitOf(err error) (time.Duration, bool) {
	var hint *after
	if !errors.As(err, &hint) {
		return 0, false
	}
	return hint.wait, true
}

// Config are the settings of a Consumer. Start from Defaults.
type Config struct {
	// Attempts [8] is how often a delivery is tried before it becomes a dead letter.
	Attempts int
	// FirstWait [200ms] is the pause before the second try; it doubles up to MaxWait
	// [30s]. Each is jittered between half and whole.
	FirstWait, MaxWait time.Duration
	// Timeout [10s] bounds one try.
	Timeout time.Duration
	// Concurrency [8] is how many deliveries of one partition are tried at the same time, besides as
	// many that are tried again or take longer than a second.
	Concurrency int
	// Queue [1,000] is how many deliveries of one partition may be in progress: being tried, or
	// waiting for an earlier one of the same user or for the next try. When it is full, the partition
	// is not read. A delivery has up to 1,000 recipients, 8 bytes each, and its record.
	Queue int
	// Rate [0: no limit] is how many tries a second begin.
	Rate float64
	// Remember [1,000,000] is the size of the dedup cache in pairs of recipient and user, about 60
	// bytes each.
	Remember int
	// HiddenOffline [false]: a hidden user is shown as offline since the hide, so a delivery may say
	// that a hidden user is offline.
	HiddenOffline bool
	// MaxAge [0: no limit] is how old a delivery may be. Older ones are withheld, as after a channel
	// was away for long.
	MaxAge time.Duration
}

// HiddenAfter reports whether a transition after version hides user. Any goroutine may call it.
type HiddenAfter func(user schemas.UserID, version schemas.Version) bool

// ErasedAfter reports whether user was erased after version. Any goroutine may call it.
type ErasedAfter func(user schemas.UserID, version schemas.Version) bool

// Refused returns those of recipients, in their order, who may not see user now. An error says that
// it cannot be decided. Several goroutines call it. It returns when ctx ends, after Config.Timeout.
type Refused func(ctx context.Context, user schemas.UserID, recipients []schemas.UserID) ([]schemas.UserID, error)

// Tenants chooses tenants, in text mode.
type Tenants struct {
	// Only are the tenants that are served; none: all.
	Only []string
	// Except are tenants that are not served.
	Except []string
}

// Validate returns all faults, joined.
func (t Tenants) Validate() error {
	var all faults.List
	for _, tenant := range t.Only {
		all.Add(schemas.CheckTenant(fmt.Sprintf("tenant %q", tenant), tenant))
	}
	for _, tenant := range t.Except {
		all.Add(schemas.CheckTenant(fmt.Sprintf("except_tenant %q", tenant), tenant))
	}
	all.If(len(t.Only) > 0 && len(t.Except) > 0, "tenant, except_tenant: exclude each other")
	return all.Err()
}

// all reports whether no tenant is left out.
func (t Tenants) all() bool { return len(t.Only) == 0 && len(t.Except) == 0 }

// serves reports whether a tenant is served. A user whose name, and so its tenant, is not known counts as
// one of the default tenant, whose name is empty.
func (t Tenants) serves(tenant string) bool {
	if len(t.Only) > 0 {
		return slices.Contains(t.Only, tenant)
	}
	return !slices.Contains(t.Except, tenant)
}

// Defaults returns the documented defaults.
func Defaults() Config {
	return Config{Attempts: 8, FirstWait: 200 * time.Millisecond, MaxWait: 30 * time.Second, Timeout: 10 * time.Second,
		Concurrency: 8, Queue: 1_000, Remember: 1_000_000}
}

// Validate returns all faults, joined.
func (c Config) Validate() error {
	var all faults.List
	all.If(c.Attempts < 1, "attempts: must be at least 1, is %d", c.Attempts)
	all.If(c.FirstWait <= 0 || c.MaxWait < c.FirstWait, "first_wait, max_wait: must be positive, the first not above the last; are %s and %s", c.FirstWait, c.MaxWait)
	all.If(c.Timeout <= 0, "timeout: must be positive, is %s", c.Timeout)
	all.If(c.Concurrency < 1, "concurrency: must be at least 1, is %d", c.Concurrency)
	all.If(c.Queue < 1, "queue: must be at least 1, is %d", c.Queue)
	all.If(c.Rate < 0, "rate: must not be negative, is %g", c.Rate)
	all.If(c.MaxAge < 0, "max_age: must not be negative, is %s", c.MaxAge)
	all.If(c.Remember < 1, "remember: must be positive, is %d", c.Remember)
	return all.Err()
}
