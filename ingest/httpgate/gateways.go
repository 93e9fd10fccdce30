package httpgate

import (
	"net/http"
	"sync"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

const aliveCheck = 250 * time.Millisecond

// gateways are the gateways that name themselves over HTTP.
type gateways struct {
	cfg      ingest.Config
	restarts policy.Restarts // of the goroutine that calls Restarted

	mu        sync.Mutex // protects known and the gateways in it, and restarted
	known     map[schemas.GatewayID]*gateway
	restarted time.Duration // when detectors were last seen to have lost which connections are open
}

type gateway struct {
	epoch    schemas.Millis
	heard    time.Duration // the last request
	until    time.Duration // it counts as heard, by a request that said so
	sent     time.Duration // the last empty frame
	inFlight bool          // which is not answered
	replaced time.Duration // it told of all open connections, or was asked to
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

// record notes a request of a gateway. An older epoch is a process that was replaced, and gets no more alive frames. It
// fails if there are too many gateways, and once after a lossy restart of detectors if the request does not tell of all
// open connections.
func (g *gateways) record(now time.Duration, req *request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, epoch := req.gateway, req.epoch
	known := g.known[id]
	switch {
	case known == nil && len(g.known) >= g.cfg.HTTP.MaxGateways:
		return overloaded("too many gateways")
	case known == nil || known.epoch < epoch:
		known = &gateway{epoch: epoch, sent: -g.cfg.AliveInterval, replaced: now} // due at once
		g.known[id] = known
	case known.epoch > epoch:
		return nil
	}
	known.heard, known.until = now, max(known.until, now+req.aliveFor)
	if !req.begins && (!req.events || known.replaced >= g.restarted) {
		return nil
	}
	if known.replaced = now; req.begins {
		return nil
	}
	return web.Refuse(http.StatusConflict, "conflict", "", "the detectors have lost which connections are open: "+
		"tell of all that are, with replace or replace_begins; nothing of this request was taken")
}

// Restarted takes what policy.LossyRestarts says. After a new one each gateway that tells of connections is asked once
// to tell of all. One goroutine at a time may call it.
func (g *Gate) Restarted(at map[int32]schemas.Millis) {
	if len(g.gateways.restarts.Since(at)) > 0 {
		g.gateways.mu.Lock()
		defer g.gateways.mu.Unlock()
		g.gateways.restarted = g.now()
	}
}

// due returns the gateways that need an empty frame now, and counts it as sent. It removes those that have been silent
// for ForgetAfter, and says how many are left.
func (g *gateways) due(now time.Duration) (due []schemas.FrameHead, known int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Between two beats of its only user a gateway must not be silent for long enough to be lost.
	quiet := max(g.cfg.HTTP.GatewayQuiet, g.cfg.HeartbeatInterval-g.cfg.HTTP.GatewayQuiet/2)
	for id, known := range g.known {
		switch {
		case now-max(known.heard, known.until) >= g.cfg.ForgetAfter:
			delete(g.known, id)
		case now < max(known.heard+quiet, known.until) && now-known.sent >= g.cfg.AliveInterval && !known.inFlight:
			known.sent, known.inFlight = now, true
			due = append(due, schemas.FrameHead{Gateway: id, GatewayEpoch: known.epoch})
		}
	}
	return due, len(g.known)
}

func (g *gateways) settle(head schemas.FrameHead) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.known[head.Gateway]; known != nil && known.epoch == head.GatewayEpoch {
		known.inFlight = false
	}
}

// sendAlive writes the empty frames that are due.
func (g *Gate) sendAlive() {
	due, known := g.gateways.due(g.now())
	g.metrics.Gateways.Set(float64(known))
	for _, head := range due {
		g.writer.inFlight.Add(1)
		g.writer.append("alive", 0, schemas.Outgoing{Topic: schemas.Gateways, Value: schemas.AppendFrame(nil, head, nil)},
			func(error) {
				g.gateways.settle(head)
				g.writer.inFlight.Done()
			})
	}
}
