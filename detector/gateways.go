package detector

import (
	"maps"
	"sync"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Gateways are the processes of gateways that are heard in the topic gateways. Their time is that of the topic, so a
// reader that lags makes nobody silent, nor does a topic that stands still. One goroutine calls Take; any may ask.
type Gateways struct {
	checker *signing.Checker
	frame   schemas.Frame // of Take

	mu     sync.Mutex                         // protects what follows
	log    schemas.Millis                     // the latest append time
	now    schemas.Millis                     // since the first record, without what gaps have beyond gatewaysStep
	swept  schemas.Millis                     // when known was looked through
	known  map[schemas.GatewayID]heardProcess // at most maxGateways
	looked schemas.Millis                     // log at the latest look
	since  time.Time                          // since when it is that, by the clock of the process
	taken  time.Time                          // when the latest record came, by that clock
}

// fresh reports whether the topic does not stand still.
func (g *Gateways) fresh(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Sub(g.taken) < stillAfter
}

// heardProcess is the newest process of a gateway that is heard.
type heardProcess struct {
	epoch    schemas.Millis
	at       schemas.Millis // when it was heard last
	draining bool
}

const (
	// gatewaysStep bounds how far time goes on between two records, a tick a second included: if nobody writes, nobody
	// is silent, and after a gap all have a second to write.
	gatewaysStep = 1000
	// replacedFor is how long no older process of a gateway counts.
	replacedFor = 5000
	// quietLeast is more than lies between two frames of a gateway, 2 s at most.
	quietLeast  = 2500
	maxGateways = 1 << 16
	// GatewaysSince is how far back a reader begins, milliseconds: far enough to know who is silent.
	GatewaysSince = 60_000
	// GatewaysRest is how long a reader rests at the end of the topic: thousands of gateways write to it one by one.
	GatewaysRest = 250 * time.Millisecond
)

// NewGateways makes Gateways that know none. topic is the full name; keys may be nil.
func NewGateways(keys *signing.Keys, topic string) *Gateways {
	return &Gateways{checker: keys.Checker(topic, 0), known: map[schemas.GatewayID]heardProcess{}}
}

// Take reads a record of the topic. It returns why the record does not count.
func (g *Gateways) Take(r *schemas.Record) error {
	f := &g.frame
	if err := f.Decode(r.Value); err != nil {
		return err
	}
	if err := g.checker.Check(f, r.Time); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken = time.Now()
	if g.log != 0 {
		g.now += min(max(0, r.Time-g.log), gatewaysStep)
	}
	g.log = max(g.log, r.Time)
	if err := f.CheckEpoch(g.log); err != nil {
		return err
	}
	if g.now-g.swept >= GatewaysSince {
		g.swept = g.now
		maps.DeleteFunc(g.known, func(_ schemas.GatewayID, h heardProcess) bool { return g.now-h.at >= GatewaysSince })
	}
	before, known := g.known[schemas.GatewayID(f.Gateway)]
	replaced := known && f.GatewayEpoch < before.epoch && g.now-before.at < replacedFor
	if len(f.Gateway) > 0 && f.GatewayEpoch != 0 && !replaced && (known || len(g.known) < maxGateways) {
		g.known[schemas.GatewayID(f.Gateway)] = heardProcess{f.GatewayEpoch, g.now, f.Draining}
	}
	return nil
}

// lease calls write with what a partition has to be told of the gateways that it knows. A process is silent after two
// frames that did not come: early enough for its lease to end before it is lost, and before it is not known any more.
// Where the topic stands still, whoever is remembered and not lost counts as heard: its process may have started since.
// It returns for how long the topic does.
func (g *Gateways) lease(m *liveness.Machine, now time.Time, write func(schemas.FrameHead)) time.Duration {
	quiet := min(max(schemas.Millis(m.Policy().Policy.GatewaySilence.Milliseconds())*2/5, quietLeast), GatewaysSince/2)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.log != g.looked || g.since.IsZero() {
		g.looked, g.since = g.log, now
	}
	age := now.Sub(g.since)
	still := age >= stillAfter
	for id, processes := range m.Gateways {
		h, known := g.known[id]
		heard, newest := known && g.now-h.at < quiet, schemas.Millis(0)
		for _, p := range processes {
			newest = max(newest, p.Epoch)
			silent := quiet // of one that was replaced
			if !known || h.epoch == p.Epoch {
				silent = min(g.now-h.at, GatewaysSince)
			}
			presumed, runs := still && !p.Lost && h.epoch < p.Epoch, heard && h.epoch == p.Epoch
			switch {
			case presumed && !p.Leased, runs && (!p.Leased || p.Draining != h.draining):
				write(schemas.FrameHead{Gateway: id, GatewayEpoch: p.Epoch, Leased: true, Draining: runs && h.draining})
			case !presumed && !runs && p.Leased && silent >= quiet:
				write(schemas.FrameHead{Gateway: id, GatewayEpoch: p.Epoch, LeaseEnded: silent})
			}
		}
		if heard && newest != 0 && h.epoch > newest {
			write(schemas.FrameHead{Gateway: id, GatewayEpoch: h.epoch, Leased: true, Draining: h.draining})
		}
	}
	return age
}

// stillAfter is after how long without a record the topic stands still: less than the default gateway_silence.
const stillAfter = 4 * time.Second

// leaseEvery is how often a partition looks at the gateways, by the clock of the process: one that lags does not write
// the same changes for each second of the log. It is less than the second between two ticks of a quiet partition.
const leaseEvery = 900 * time.Millisecond

// leaseAgain is after how long a partition that has not read all that it wrote writes it again: it may be lost.
// leaseAgainBehind is that of an owner that does not keep up, and so has not read what is not lost either.
const leaseAgain, leaseAgainBehind = 3 * time.Second, 10 * time.Second

// lease writes to the partition what changes in the leases of its gateways. The owner of partition 0 also lets the time
// of the topic gateways go on. Whatever is lost on the way is written again.
func (p *Partition) lease(out *stream.Outbox) {
	if p.config.Gateways == nil {
		return
	}
	if p.id == 0 {
		out.Hints = append(out.Hints, schemas.Outgoing{Topic: schemas.Gateways, Value: schemas.AppendTick(nil)})
	}
	now := p.config.Now()
	again := leaseAgain
	if p.frame.Behind {
		again = leaseAgainBehind
	}
	if ago := now.Sub(p.leasedAt).Abs(); ago < leaseEvery || p.leasesUnread > 0 && ago < again {
		return
	}
	p.leasedAt, p.leasesUnread = now, 0
	age := p.config.Gateways.lease(p.machine, now, func(head schemas.FrameHead) {
		p.leasesUnread++
		out.Hints = append(out.Hints, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p.id,
			Value: schemas.AppendFrame(nil, head, nil)})
	})
	p.config.Metrics.GatewaysStill.Set(age.Seconds())
}
