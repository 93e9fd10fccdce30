package live

import (
	"context"
	"fmt"
	"time"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/schemas"
)

// Snapshot reads the present state of users: one Presence for each id, in the order of ids; an
// unknown user is offline. names are those of ids; the zero value of users with numbers. A user whom the stores
// know by another name looks hidden. StaleSince is set on what may be out of date. It is called concurrently
// and gives up when ctx ends. (The reader of the current status has this form.)
type Snapshot func(ctx context.Context, ids []schemas.UserID, names []schemas.Name) ([]schemas.Presence, error)

// Recent reads the newest published change of each of users in the last minute or so, in no order,
// without those who have none. Called concurrently.
type Recent func(ctx context.Context, users []schemas.UserID) ([]fanout.Change, error)

// reader reads snapshots that have everything published before the read began.
type reader struct {
	view    Snapshot
	recent  Recent
	metrics *fanout.Metrics
	offline bool // Config.HiddenOffline
}

// after returns how viewers see the user after c, seen as previous before.
func (r reader) after(c fanout.Change, previous schemas.Presence) schemas.Presence {
	if !isOf(c, previous.Name) {
		c = hiding(c.Transition)
	}
	p := c.After(previous)
	if r.offline {
		p = c.AsOffline(previous)
	}
	p.Name = previous.Name
	return p
}

// snapshot reads the view.
func (r reader) snapshot(ctx context.Context, ids []schemas.UserID, names []*schemas.Name) ([]schemas.Presence, error) {
	called := make([]schemas.Name, len(names))
	for i, name := range names {
		if name != nil {
			called[i] = *name
		}
	}
	users, err := r.view(ctx, ids, called)
	for i := range min(len(users), len(names)) {
		users[i].Name = names[i]
	}
	return users, err
}

// read returns, of the view and the recent changes, what has the newer version. If the recent
// changes cannot be read, or connected is false, the result is stale.
func (r reader) read(ctx context.Context, ids []schemas.UserID, names []*schemas.Name, connected bool) ([]schemas.Presence, error) {
	begun := time.Now()
	defer func() { r.metrics.ReadSeconds.Observe(time.Since(begun).Seconds()) }()
	users, err := r.snapshot(ctx, ids, names)
	if err != nil {
		return nil, fmt.Errorf("reading %d users: %w", len(ids), err)
	}
	if len(users) != len(ids) {
		return nil, fmt.Errorf("reading %d users: got %d", len(ids), len(users))
	}
	var changes []fanout.Change
	if connected {
		changes, err = r.recent(ctx, ids)
		connected = err == nil
	}
	newest := make(map[schemas.UserID]fanout.Change, len(changes))
	for _, c := range changes {
		newest[c.Transition.User] = c
	}
	for i, id := range ids {
		if users[i].UserID != id {
			return nil, fmt.Errorf("reading %d users: got %d in the place of %d", len(ids), users[i].UserID, id)
		}
		stale := users[i].StaleSince
		if c, ok := newest[id]; ok {
			if p := r.after(c, users[i]); p.Newer(users[i]) {
				users[i] = p
				users[i].StaleSince = stale
			}
		}
		if !connected && stale == 0 {
			users[i].StaleSince = schemas.MillisOf(begun)
		}
	}
	return users, nil
}
