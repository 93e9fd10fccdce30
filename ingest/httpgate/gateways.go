package httpgate

import (
	"sync"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/schemas"
)

const aliveCheck = 250 * time.Millisecond

// gateways are the gateways that name themselves over HTTP, and the partitions of their users.
type gateways struct {
	cfg   ingest.Config
	mu    sync.Mutex // protects known and the gateways in it
	known map[schemas.GatewayID]*gateway
}

type gateway struct {
	epoch schemas.Millis
	heard time.Duration // the last request
	until time.Duration // it counts as heard, by a request that said so
	holds bool          // connections, of which other processes may know more: it is kept alive in every partition
	parts map[int32]*part
}

// part is a partition into which a gateway sends.
type part struct {
	beats    time.Duration // the last ones
	sent     time.Duration // the last frame, empty or not
	inFlight bool          // an empty frame is not answered
}

func newGateways(cfg ingest.Config) *gateways {
	return &gateways{cfg: cfg, known: map[schemas.GatewayID]*gateway{}}
}

// oldestOpen is how long ago a connection may have been open that is told of now: less than the detector remembers
// those that were closed.
func (g *gateways) oldestOpen() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cfg.ForgetAfter / 2
}

// record notes a request of a gateway. An older epoch is a process that was replaced, and gets no
// more alive frames. It fails if there are too many gateways.
func (g *gateways) record(now time.Duration, req *request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, epoch := req.gateway, req.epoch
	known := g.known[id]
	switch {
	case known == nil && len(g.known) >= g.cfg.HTTP.MaxGateways:
		return overloaded("too many gateways")
	case known == nil || known.epoch < epoch:
		known = &gateway{epoch: epoch, parts: map[int32]*part{}}
		g.known[id] = known
	case known.epoch > epoch:
		return nil
	}
	known.heard, known.until, known.holds = now, max(known.until, now+req.aliveFor), known.holds || req.events
	for p := range g.cfg.Partitions {
		if known.holds && known.parts[p] == nil {
			known.parts[p] = &part{sent: -g.cfg.AliveInterval} // due at once
		}
	}
	for i := range req.beats {
		p := schemas.PartitionOf(req.beats[i].User, g.cfg.Partitions)
		if known.parts[p] == nil {
			known.parts[p] = &part{}
		}
		known.parts[p].beats, known.parts[p].sent = now, now
	}
	return nil
}

// due returns the lanes that need an empty frame now, and counts it as sent. It removes partitions
// and gateways that have been silent for ForgetAfter.
func (g *gateways) due(now time.Duration) []laneKey {
	g.mu.Lock()
	defer g.mu.Unlock()
	var due []laneKey
	// Between two beats of its only user a gateway must not be silent for long enough to be lost.
	quiet := max(g.cfg.HTTP.GatewayQuiet, g.cfg.HeartbeatInterval-g.cfg.HTTP.GatewayQuiet/2)
	for id, known := range g.known {
		if now-max(known.heard, known.until) >= g.cfg.ForgetAfter {
			delete(g.known, id)
			continue
		}
		for partition, p := range known.parts {
			switch {
			case !known.holds && now-p.beats >= g.cfg.ForgetAfter:
				delete(known.parts, partition)
			case now < max(known.heard+quiet, known.until) && now-p.sent >= g.cfg.AliveInterval && !p.inFlight:
				p.sent, p.inFlight = now, true
				due = append(due, laneKey{id, known.epoch, partition})
			}
		}
	}
	return due
}

func (g *gateways) settle(id laneKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.known[id.gateway]; known != nil && known.epoch == id.epoch && known.parts[id.partition] != nil {
		known.parts[id.partition].inFlight = false
	}
}

func (g *gateways) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.known)
}

// sendAlive writes the empty frames that are due.
func (g *Gate) sendAlive() {
	for _, id := range g.gateways.due(g.now()) {
		value := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: id.gateway, GatewayEpoch: id.epoch}, nil)
		g.writer.inFlight.Add(1)
		g.writer.append("alive", 0, schemas.Outgoing{Partition: id.partition, Value: value}, func(error) {
			g.gateways.settle(id)
			g.writer.inFlight.Done()
		})
	}
	g.metrics.Gateways.Set(float64(g.gateways.count()))
}
