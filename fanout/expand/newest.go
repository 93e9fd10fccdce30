package expand

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// jobsKept is how long Newest remembers a job, at least; at most twice that. It is longer than the
// retention of presence.fanout.
const jobsKept = 2 * time.Hour

// Newest knows the newest recent job of every user with many followers. It is a handler of
// presence.fanout. Any goroutine may use it.
type Newest struct {
	mu sync.RWMutex
	// Two generations. When the log is jobsKept past the beginning of the newer one, that replaces
	// the older one.
	versions, old map[schemas.UserID]schemas.Version
	begun, since  schemas.Millis // their beginnings, in log time
}

// NewNewest makes an empty Newest.
func NewNewest() *Newest { return &Newest{versions: map[schemas.UserID]schemas.Version{}} }

// Written is a job and the time at which it was written.
type Written struct {
	Job *schemas.FanoutJob
	At  schemas.Millis
}

// DecodeJob reads a record of presence.fanout. A writer may have chosen the record's time, so now
// bounds it: a job of next year would make Newest forget all others.
func DecodeJob(r *schemas.Record) (Written, error) {
	job, err := schemas.DecodeFanoutJob(r.Value)
	return Written{job, min(r.Time, schemas.MillisOf(time.Now()))}, err
}

// DecodeJob reads a record of presence.fanout and checks that the job can belong to this log.
func (d *Dependencies) DecodeJob(record *schemas.Record) (Written, error) {
	w, err := DecodeJob(record)
	if err == nil && d.Check != nil {
		err = d.Check(schemas.Fanout, record, w.Job.Transition)
	}
	return w, err
}

// Apply adds jobs.
func (n *Newest) Apply(_ context.Context, batch stream.Batch[Written]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range batch.Items {
		if w.At > n.begun+schemas.Millis(jobsKept.Milliseconds()) {
			n.old, n.since = n.versions, n.begun
			n.versions, n.begun = map[schemas.UserID]schemas.Version{}, w.At
		}
		n.add(w.Job.Transition)
	}
	return nil
}

// add leaves out transitions with Denies, which most followers do not get: they supersede nothing, and nothing
// supersedes them.
func (n *Newest) add(t *schemas.Transition) {
	if t.Denies == "" {
		n.versions[t.User] = max(n.versions[t.User], t.Version)
	}
}

// Superseded reports whether there is a newer job of the user, for all followers.
func (n *Newest) Superseded(t *schemas.Transition) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return t.Denies == "" && max(n.versions[t.User], n.old[t.User]) > t.Version
}

// Expired reports whether a job is so old that a newer one may have been forgotten. Such a job is
// not delivered.
func (n *Newest) Expired(at schemas.Millis) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return at < n.since
}
