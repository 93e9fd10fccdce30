package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// ProbeInterval is how often somebody new comes.
	ProbeInterval = 20 * time.Millisecond
	// FirstProbe is the id of the first; far from those of other users.
	FirstProbe = schemas.UserID(1_000_000_001)
	// readEvery is how many of those over HTTP there are for one that is read back.
	readEvery = 5
	// moreUsers is how many times as many users throughput has as latency: the client sends at
	// most one beat a second for each.
	moreUsers = 20
)

// Pipeline measures the whole way. First latency: every role runs in this process with the
// production wiring; users beat through the Go client every 15 s; fifty times a second somebody
// new comes, half of them over HTTP and half through the Go client, and it is timed when a
// consumer that reads committed has the transition, and for every fifth when GET
// /presence/{user} says online. Then throughput: how many beats a second one gateway's client
// and one detector carry, ingest to handled, with twenty times as many users.
//
// What the bench itself costs (probes, consumer, users) is on the same machine and in the
// figures.
var Pipeline = Bench{Name: "pipeline", What: "from a beat to the committed transition and the answer of the API", Users: 50_000, Seconds: 10,
	Run: func(ctx context.Context, o *Options, r *Result) error {
		if err := latency(ctx, o, r); err != nil {
			return err
		}
		return throughput(ctx, o, r)
	}}

func latency(ctx context.Context, o *Options, r *Result) (err error) {
	rig, err := NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	roles, err := rig.AllRoles(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, roles.Close()) }()

	probes := &probes{api: roles.API, begun: map[schemas.UserID]time.Time{}}
	watch := &Watcher{Seen: probes.published}
	watching := rig.Watch(ctx, watch)
	defer func() { err = errors.Join(err, watching.Stop()) }()
	g, closeGateway, err := rig.gateway(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeGateway()) }()

	beats := &beating{users: o.Users, gateway: g}
	if err := beats.everybody(); err != nil {
		return err
	}
	waiting := func() string { return fmt.Sprintf("%d of %d users are online", watch.Online.Load(), o.Users) }
	if err := o.Until(ctx, waiting, func() bool { return watch.Online.Load() >= int64(o.Users) }); err != nil {
		return err
	}
	// Else the first probes would wait behind the other arrivals for their place in Redis.
	caughtUp := func() bool { return roles.CaughtUp(ctx) }
	if err := o.Until(ctx, func() string { return "waiting for the stores to catch up with the arrivals" }, caughtUp); err != nil {
		return err
	}
	if err := o.Measured(func() error { return probes.run(ctx, o, beats, g) }); err != nil {
		return err
	}
	_, p99, _ := r.AddSpread("HTTP beat to committed transition", probes.http.All())
	p99.AtMost(50)
	_, p99, _ = r.AddSpread("Go client's beat to committed transition", probes.client.All())
	p99.AtMost(50)
	r.AddSpread("HTTP beat to the API's answer", probes.read.All())
	r.Note(fmt.Sprintf("%d probes; %d users beat every %s.", probes.sent, o.Users, beatInterval))
	return nil
}

// probes are users who come, and how long it takes until that is known.
type probes struct {
	api                API
	sent               int
	http, client, read LockedSpread

	mu     sync.Mutex
	begun  map[schemas.UserID]time.Time
	faults []error
	asking sync.WaitGroup
}

// run sends probes for as long as it is told to, lets the other users beat, and waits for all
// answers.
func (p *probes) run(ctx context.Context, o *Options, users *beating, g *gateway.Gateway) error {
	ticker := time.NewTicker(ProbeInterval)
	defer ticker.Stop()
	for begun := time.Now(); time.Since(begun) < o.Length(); {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := users.catchUp(); err != nil {
			return err
		}
		p.probe(ctx, g)
		o.Progress.Say("  %d probes", p.sent)
	}
	waiting := func() string { return fmt.Sprintf("%d probes have not been answered", p.open()) }
	if err := o.Until(ctx, waiting, func() bool { return p.open() == 0 }); err != nil {
		return err
	}
	p.asking.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.faults...)
}

// probe lets the next one come.
func (p *probes) probe(ctx context.Context, g *gateway.Gateway) {
	n := p.sent
	p.sent++
	user := FirstProbe + schemas.UserID(n)
	begun := time.Now()
	p.mu.Lock()
	p.begun[user] = begun
	p.mu.Unlock()
	if n%2 == 1 {
		p.fault(user, g.Beat(user, device, schemas.Mobile, 0))
		return
	}
	p.asking.Go(func() {
		p.fault(user, p.api.Beat(ctx, user, false))
		if n/2%readEvery == 0 {
			p.fault(user, p.readBack(ctx, user, begun))
		}
	})
}

func (p *probes) fault(user schemas.UserID, err error) {
	if err != nil {
		p.mu.Lock()
		p.faults = append(p.faults, fmt.Errorf("probe %d: %w", user, err))
		delete(p.begun, user)
		p.mu.Unlock()
	}
}

func (p *probes) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.begun)
}

// published is told of transitions by the consumer.
func (p *probes) published(t *schemas.Transition, at time.Time) {
	p.mu.Lock()
	begun, mine := p.begun[t.User]
	delete(p.begun, t.User)
	p.mu.Unlock()
	switch {
	case !mine:
	case (t.User-FirstProbe)%2 == 1:
		p.client.Add(Spread{at.Sub(begun)})
	default:
		p.http.Add(Spread{at.Sub(begun)})
	}
}

// readBack asks until the answer is online.
func (p *probes) readBack(ctx context.Context, user schemas.UserID, begun time.Time) error {
	for time.Since(begun) < Timeout {
		is, err := p.api.Presence(ctx, user)
		if err != nil {
			return err
		}
		if is.State != nil && *is.State == schemas.StateWord(schemas.Online) {
			p.read.Add(Spread{time.Since(begun)})
			return nil
		}
		if err := Pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the API did not say online within %s", Timeout)
}

// throughput measures how many beats a second go from a gateway's calls to handled by the
// detector, as fast as one goroutine can call.
func throughput(ctx context.Context, o *Options, r *Result) (err error) {
	rig, err := NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	d := rig.Detector(ctx, Stay(), nil)
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := d.Assigned(ctx); err != nil {
		return err
	}
	g, closeGateway, err := rig.gateway(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeGateway()) }()
	// A client takes a million devices; the margin is for partitions of unequal size.
	n := min(moreUsers*o.Users, 1_000_000)
	users := &beating{users: n, gateway: g}
	if err := users.everybody(); err != nil {
		return err
	}
	waiting := func() string { return fmt.Sprintf("%.0f of %d users are online", count(d.metrics.Beats), n) }
	if err := o.Until(ctx, waiting, func() bool { return count(d.metrics.Beats) >= float64(n) }); err != nil {
		return err
	}
	before, begun, calls := count(d.metrics.Beats), time.Now(), 0
	err = o.Measured(func() error {
		for time.Since(begun) < o.Length() && ctx.Err() == nil {
			if err := users.everybody(); err != nil {
				return err
			}
			calls += n
			o.Progress.Say("  %d calls", calls)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	handled := count(d.metrics.Beats) - before
	r.Add("beats from the Go client to handled by the detector", handled/took/1e6, "M beats/s").AtLeast(1)
	r.Add("calls of the Go client, repeats within a second included", float64(calls)/took/1e6, "M/s")
	r.Note(fmt.Sprintf("Throughput with %d users.", n))
	return nil
}

// count reads a counter.
func count(c prometheus.Counter) float64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return m.GetCounter().GetValue()
}
