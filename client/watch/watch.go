// Package watch receives changes of users as they happen, over the live stream.
//
//	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: "https://presence.example.com"}}, "1", "2", "3")
//	for event, err := range w.Events(ctx) {
//		if err != nil { return err } // refused for good
//		if event.Kind == watch.Changed { show(event.User) }
//	}
//
// A Watcher remembers the newest version of each user, and the stream's cursor. If the connection is
// lost, it connects again, after a growing, jittered pause or at the time that the server asks for, and
// subscribes to the users that it watches then. It yields every visible change that it missed, in the
// order of each user's versions. Where the server cannot list them (too many or too old; other users
// are watched now), it yields Resynced and the newest state of each user that is newer. So a program
// that shows the last Changed event of each user is up to date, whatever was lost in between.
//
// Users are given by name; with --ids int that is the number in decimal.
package watch

import (
	"errors"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/schemas"
)

// Config configures a Watcher. HTTP is required.
type Config struct {
	HTTP client.HTTP
	// Tenant is that of the users, with --ids text ["": that of the token, or the default one].
	Tenant string
	// Deliveries requests also the deliveries to the user of the token, which stillhere channel
	// live sends: changes of users whom that user follows.
	Deliveries bool
	// FirstWait [250ms] is the pause after a lost connection. It doubles up to MaxWait [15s]. Each
	// pause is jittered between half and all of it.
	FirstWait, MaxWait time.Duration
}

// Validate reports all faults, joined.
func (c Config) Validate() error {
	faults := []error{c.HTTP.Validate(), schemas.CheckTenant("watch.tenant", c.Tenant)}
	if c.FirstWait < 0 {
		faults = append(faults, schemas.Invalid("watch.first_wait", "must be positive"))
	}
	if c.MaxWait < 0 || c.MaxWait != 0 && c.MaxWait < c.FirstWait {
		faults = append(faults, schemas.Invalid("watch.max_wait", "must be at least first_wait"))
	}
	return errors.Join(faults...)
}

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	// Connected: the server has accepted the connection, or its policy has another Schedule.
	Connected Kind = "connected"
	// Changed: User is newer than the last Changed event of that user, or stale or unsure when that was
	// not, or the reverse.
	Changed Kind = "changed"
	// Delivered: User, whom the viewer follows, has changed.
	Delivered Kind = "delivered"
	// Collapsed: the program reads too slowly, and Count changes were skipped. The newest change of
	// each user follows.
	Collapsed Kind = "collapsed"
	// Resynced: the changes since the last connection cannot be listed. The newest change of each user
	// follows.
	Resynced Kind = "resynced"
	// Refused: the server refused a request of this connection with Err. If its code is
	// not_allowed, User.UserID may not be watched and is no longer watched.
	Refused Kind = "refused"
	// Disconnected: the connection was lost because of Err. The next attempt is after RetryIn;
	// until then earlier events may be out of date.
	Disconnected Kind = "disconnected"
)

// Event is a message of the stream or a change of the connection. Kind determines which fields are
// set.
type Event struct {
	Kind    Kind
	User    schemas.User
	Count   int
	Err     error // Refused: a *client.ProblemError
	RetryIn time.Duration
	// Schedule is when devices send heartbeats by the policy in force, which is that of the tenant where it
	// has its own, and MaxUsers how many users one connection may watch (Connected).
	Schedule schemas.Schedule
	MaxUsers int
}
