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
	// gatewaysSince is how much of the topics is read before what comes.
	gatewaysSince = time.Minute
	// gatewaysTimeout is how long an overview waits until that is read: everything else is known by then.
	gatewaysTimeout = 300 * time.Millisecond
	// lostFor is how long a silent gateway is shown.
	lostFor = 15 * time.Minute
	// wentWith: users who fell silent without a bye so shortly before their gateway may have been lost with it.
	// Ingest speaks for a gateway of HTTP some seconds longer than the gateway lives.
	wentWith = time.Minute
	// shownGateways bounds the answer, maxGateways what is kept.
	shownGateways, maxGateways = 1000, 10_000
	// maxHeard bounds the devices that are kept; with more, no gateway has a number of users.
	maxHeard = 1_000_000
)

// States of a gateway.
const (
	alive    = "alive"
	draining = "draining"
	lost     = "lost"
	// idle is silent, and no user was connected through it, or fell silent, shortly before.
	idle = "idle"
)

// frameSeen is what a record says of its gateway; of none if gateway is empty.
type frameSeen struct {
	gateway     string
	epoch, time schemas.Millis
	draining    bool
	come, left  []deviceSeen // with a beat, and with a bye
	partition   int32
	begins      bool      // a replacement of the connections in the partition
	told        []telling // of connections
}

// telling is that a connection is open, or broke, or was closed.
type telling struct {
	deviceSeen
	connection   schemas.ConnectionID
	lost, closed bool
}

// presence is when a device was heard last. While a connection is open, it is whenever its gateway is.
type presence struct {
	at        schemas.Millis
	open      schemas.ConnectionID // 0: none
	partition int32
}

// at is when a device was heard last.
func (h *heard) at(p presence) schemas.Millis {
	if p.open != 0 {
		return h.last
	}
	return p.at
}

// deviceSeen is a device of a user.
type deviceSeen struct {
	user   schemas.UserID
	device schemas.DeviceID
}

// framesOf reads records. Of the frames that detectors take only those of the gateway itself count, not those that
// were forwarded.
func framesOf(counts func(*schemas.Record, *schemas.Frame) bool) func(*schemas.Record) frameSeen {
	return func(r *schemas.Record) (seen frameSeen) {
		var f schemas.Frame
		if f.Decode(r.Value) != nil {
			return seen
		}
		seen.time = r.Time
		if f.GatewayEpoch == 0 || f.Forwarded || f.Lease() || !counts(r, &f) {
			return seen
		}
		seen.partition, seen.begins = r.Partition, f.Begins
		seen.gateway, seen.epoch, seen.draining = strings.Clone(string(f.Gateway)), f.GatewayEpoch, f.Draining
		rows := f.Beats()
		for b := (schemas.Beat{}); rows.Next(&b); {
			if one := (deviceSeen{b.User, b.Device}); b.Connection != 0 || b.Lost {
				seen.told = append(seen.told, telling{one, b.Connection, b.Lost, b.Bye})
			} else if b.Bye {
				seen.left = append(seen.left, one)
			} else {
				seen.come = append(seen.come, one)
			}
		}
		return seen
	}
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
	devices  map[deviceSeen]presence
	// silent is the state since it is silent, so that it outlives the devices; empty while it is not.
	silent string
}

// gatewaySet holds the gateways. Any goroutine may use it.
type gatewaySet struct {
	reader interface {
		OffsetSince(ctx context.Context, topic schemas.Topic, partition int32, since schemas.Millis) (int64, error)
	}

	mu    sync.Mutex
	lives map[gatewayLife]*heard
	now   schemas.Millis // the newest time of a record
	heard int            // devices in all lives
	full  bool           // there were too many devices to keep them
}

func (g *gatewaySet) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lives, g.now, g.heard, g.full = nil, 0, 0, false
}

// gatewayTopic is one of the topics in which gateways are heard.
type gatewayTopic struct {
	*gatewaySet
	topic schemas.Topic
}

// Start begins a little before now, so that gateways are known at once.
func (g gatewayTopic) Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	offset, err := g.reader.OffsetSince(ctx, g.topic, at.Partition, schemas.MillisOf(time.Now().Add(-gatewaysSince)))
	return stream.StoredOffset{Next: offset, Topic: at.TopicID}, err
}

// Apply takes records.
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
		h = &heard{devices: map[deviceSeen]presence{}}
		g.lives[key] = h
	}
	h.last, h.draining, h.silent = max(h.last, f.time), h.draining || f.draining, ""
	if g.full {
		return
	}
	before := len(h.devices)
	for _, one := range f.come {
		h.devices[one] = presence{f.time, h.devices[one].open, f.partition}
	}
	h.tell(f)
	for _, one := range f.left {
		delete(h.devices, one)
	}
	if g.heard += len(h.devices) - before; g.heard > maxHeard {
		g.full, g.heard = true, 0
		for _, h := range g.lives {
			h.devices = nil
		}
	}
}

// tell takes what a frame says of connections.
func (h *heard) tell(f *frameSeen) {
	for one, p := range h.devices {
		if f.begins && p.open != 0 && p.partition == f.partition {
			h.devices[one] = presence{f.time, 0, f.partition}
		}
	}
	for _, t := range f.told {
		p := h.devices[t.deviceSeen]
		switch ended := t.lost || t.closed; {
		case ended && t.connection != 0 && t.connection != p.open && p.open != 0: // it has a newer one
		case t.closed:
			delete(h.devices, t.deviceSeen)
		case !ended:
			h.devices[t.deviceSeen] = presence{f.time, t.connection, f.partition}
		case p.open != 0:
			h.devices[t.deviceSeen] = presence{f.time, 0, f.partition}
		}
	}
}

// leftBehind reports whether users were connected when the gateway was heard last: lost, or none: idle.
// Without devices to look at, it counts as lost.
func (h *heard) leftBehind(ttl time.Duration) string {
	if h.devices == nil {
		return lost
	}
	for _, p := range h.devices {
		if durationOf(h.last-h.at(p)) <= max(ttl, wentWith) {
			return lost
		}
	}
	return idle
}

// list returns the gateways under a policy, lost ones first, and forgets what is too old. Users are those
// who were heard through the gateway within ttl, the longest online_ttl of any tenant.
func (g *gatewaySet) list(p schemas.Policy, ttl time.Duration) []Gateway {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []Gateway{}
	newest := map[string]schemas.Millis{}
	for key := range g.lives {
		newest[key.gateway] = max(newest[key.gateway], key.epoch)
	}
	for key, h := range g.lives {
		silence, ended := durationOf(g.now-h.last), key.epoch < newest[key.gateway]
		state := alive
		switch {
		case h.draining:
			state = draining
		case silence > p.GatewaySilence, ended:
			h.silent = cmp.Or(h.silent, h.leftBehind(ttl))
			state = h.silent
		}
		if silence > lostFor || h.draining && silence > p.GatewaySilence || ended && state == idle {
			g.heard -= len(h.devices)
			delete(g.lives, key)
			continue
		}
		one := Gateway{Gateway: key.gateway, State: state, LastSeenAt: h.last, Epoch: key.epoch}
		if !g.full {
			present, before := map[schemas.UserID]struct{}{}, len(h.devices)
			for device, p := range h.devices {
				switch at := h.at(p); {
				case durationOf(g.now-at) <= ttl:
					present[device.user] = struct{}{}
				// Of one that may turn out to be lost, those who may be lost with it are kept.
				case h.silent != "" || durationOf(h.last-at) > max(ttl, wentWith):
					delete(h.devices, device)
				}
			}
			g.heard += len(h.devices) - before
			n := int64(len(present))
			one.Users = &n
		}
		all = append(all, one)
	}
	rank := map[string]int{lost: 0, draining: 1, alive: 2, idle: 3}
	slices.SortFunc(all, func(a, b Gateway) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), strings.Compare(a.Gateway, b.Gateway), cmp.Compare(a.Epoch, b.Epoch))
	})
	return all[:min(len(all), shownGateways)]
}

func durationOf(m schemas.Millis) time.Duration { return time.Duration(m) * time.Millisecond }
