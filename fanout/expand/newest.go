package expand

import (
	"context"
	"sync"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// jobsKept is how long a user's newest job is known after it was written: at least
// once that, at most twice. It is longer than the topic keeps jobs.
const jobsKept = 2 * time.Hour

// Newest knows the newest job of every user with many followers of the last hours. It
// is a handler of presence.fanout. Any goroutine may use it.
type Newest struct {
	mu sync.RWMutex
	// The younger and the older generation. When the log has gone on for jobsKept since
	// the younger began, it becomes the older.
	versions, old map[schemas.UserID]schemas.Version
	begun, since  schemas.Millis // when they did, in log time
}

// NewNewest makes an empty one.
func NewNewest() *Newest { return &Newest{versions: map[schemas.UserID]schemas.Version{}} }

// Written is a job and the time at which it was written.
type Written struct {
	Job *schemas.FanoutJob
	At  schemas.Millis
}

// DecodeJob reads a record of presence.fanout. Its time, which whoever wrote it may have
// chosen, counts up to now: one of next year would have all jobs forgotten until then.
func DecodeJob(r *schemas.Record) (Written, error) {
	job, err := schemas.DecodeFanoutJob(r.Value)
	return Written{job, min(r.Time, schemas.MillisOf(time.Now()))}, err
}

// DecodeJob is that of jobs which can be of this log.
func (r *Room) DecodeJob(record *schemas.Record) (Written, error) {
	w, err := DecodeJob(record)
	if err == nil && r.Check != nil {
		err = r.Check(schemas.Fanout, record, w.Job.Transition)
	}
	return w, err
}

// Apply notes jobs.
func (n *Newest) Apply(_ context.Context, batch schemas.Batch[Written]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range batch.Items {
		if w.At > n.begun+schemas.Millis(jobsKept.Milliseconds()) {
			n.old, n.since = n.versions, n.begun
			n.versions, n.begun = map[schemas.UserID]schemas.Version{}, w.At
		}
		t := w.Job.Transition
		n.versions[t.User] = max(n.versions[t.User], t.Version)
	}
	return nil
}

// Void tells whether there is a newer job of the user.
func (n *Newest) Void(t *schemas.Transition) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return max(n.versions[t.User], n.old[t.User]) > t.Version
}

// Forgotten tells whether a job was written so long ago that a newer one may not be
// known any more. It is news no more either.
func (n *Newest) Forgotten(at schemas.Millis) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return at < n.since
}
