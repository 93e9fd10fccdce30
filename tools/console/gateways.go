package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// gatewaysSince is how much of presence.heartbeats is read before what comes.
	gatewaysSince = time.Minute
	// gatewaysTimeout is how long an overview waits until that is read.
	gatewaysTimeout = 1500 * time.Millisecond
	// lostFor is how long a lost gateway is shown.
	lostFor = 15 * time.Minute
	// shownGateways bounds the answer, maxGateways what is kept.
	shownGateways, maxGateways = 1000, 10_000
	// maxHeard bounds the users that are counted; with more, no gateway has a number of users.
	maxHeard = 1_000_000
)

// States of a gateway.
const (
	alive    = "alive"
	draining = "draining"
	lost     = "lost"
)

// frameSeen is what a record of presence.heartbeats says of its gateway; of none if gateway is empty.
type frameSeen struct {
	gateway     string
	epoch, time schemas.Millis
	draining    bool
	come, left  []schemas.UserID // users with a beat, and with a bye
}

// frameOf reads a record. Only frames of the gateway itself count, not those that were forwarded.
func frameOf(r *schemas.Record) (seen frameSeen) {
	var f schemas.Frame
	if f.Decode(r.Value) != nil {
		return seen
	}
	seen.time = r.Time
	if len(f.Gateway) == 0 || f.Forwarded {
		return seen
	}
	seen.gateway, seen.epoch, seen.draining = strings.Clone(string(f.Gateway)), f.GatewayEpoch, f.Draining
	rows := f.Beats()
	for b := (schemas.Beat{}); rows.Next(&b); {
		if b.Bye {
			seen.left = append(seen.left, b.User)
		} else {
			seen.come = append(seen.come, b.User)
		}
	}
	return seen
}

// gatewayLife is one start of a gateway.
type gatewayLife struct {
	gateway string
	epoch   schemas.Millis
}

// heard is what was heard of it.
type heard struct {
	last     schemas.Millis
	draining bool
	users    map[schemas.UserID]schemas.Millis // when each was heard last
}

// gatewaySet holds the gateways. Any goroutine may use it.
type gatewaySet struct {
	reader interface {
		OffsetSince(ctx context.Context, topic schemas.Topic, partition int32, since schemas.Millis) (int64, error)
	}

	mu    sync.Mutex
	lives map[gatewayLife]*heard
	now   schemas.Millis // the newest time of a record
	users int            // in all lives
	full  bool           // there were too many users to count them
}

func (g *gatewaySet) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lives, g.now, g.users, g.full = nil, 0, 0, false
}

// Start begins a little before now, so that gateways are known at once.
func (g *gatewaySet) Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	offset, err := g.reader.OffsetSince(ctx, schemas.Heartbeats, at.Partition, schemas.MillisOf(time.Now().Add(-gatewaysSince)))
	return stream.StoredOffset{Next: offset, Topic: at.TopicID}, err
}

// Apply takes records of presence.heartbeats.
func (g *gatewaySet) Apply(_ context.Context, batch stream.Batch[frameSeen]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range batch.Items {
		g.hear(&batch.Items[i])
	}
	return nil
}

func (g *gatewaySet) hear(f *frameSeen) {
	g.now = max(g.now, f.time)
	if f.gateway == "" {
		return
	}
	if g.lives == nil {
		g.lives = map[gatewayLife]*heard{}
	}
	key := gatewayLife{f.gateway, f.epoch}
	h := g.lives[key]
	if h == nil {
		if len(g.lives) >= maxGateways {
			return
		}
		h = &heard{users: map[schemas.UserID]schemas.Millis{}}
		g.lives[key] = h
	}
	h.last, h.draining = max(h.last, f.time), h.draining || f.draining
	if g.full {
		return
	}
	for _, user := range f.come {
		if _, known := h.users[user]; !known {
			g.users++
		}
		h.users[user] = f.time
	}
	for _, user := range f.left {
		g.forget(h, user)
	}
	if g.users > maxHeard {
		g.full, g.users = true, 0
		for _, h := range g.lives {
			h.users = nil
		}
	}
}

func (g *gatewaySet) forget(h *heard, user schemas.UserID) {
	if _, known := h.users[user]; known {
		delete(h.users, user)
		g.users--
	}
}

// list returns the gateways under a policy, lost ones first, and forgets what is too old. Users are those
// who were heard through the gateway within online_ttl.
func (g *gatewaySet) list(p schemas.Policy) []Gateway {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []Gateway{}
	newest := map[string]schemas.Millis{}
	for key := range g.lives {
		newest[key.gateway] = max(newest[key.gateway], key.epoch)
	}
	for key, h := range g.lives {
		silence := durationOf(g.now - h.last)
		state := alive
		switch {
		case h.draining:
			state = draining
		case silence > p.GatewaySilence, key.epoch < newest[key.gateway]:
			state = lost
		}
		if silence > lostFor || h.draining && silence > p.GatewaySilence {
			g.users -= len(h.users)
			delete(g.lives, key)
			continue
		}
		one := Gateway{Gateway: key.gateway, State: state, LastSeenAt: h.last, Epoch: key.epoch}
		if !g.full {
			n := int64(0)
			for user, at := range h.users {
				if durationOf(g.now-at) > p.OnlineTTL {
					g.forget(h, user)
					continue
				}
				n++
			}
			one.Users = &n
		}
		all = append(all, one)
	}
	rank := map[string]int{lost: 0, draining: 1, alive: 2}
	slices.SortFunc(all, func(a, b Gateway) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), strings.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Epoch, b.Epoch))
	})
	return all[:min(len(all), shownGateways)]
}

func durationOf(m schemas.Millis) time.Duration { return time.Duration(m) * time.Millisecond }
