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
	Run: func(t *T) {
		t.Part(func() { latency(t) })
		t.Part(func() { throughput(t) })
	}}

func latency(t *T) {
	rig := t.Rig()
	roles := rig.AllRoles(nil)
	probes := &probes{T: t, api: roles.API, begun: map[schemas.UserID]time.Time{}}
	watch := rig.Watch(probes.published)
	g := rig.gateway()
	beats := &beating{users: t.Users, gateway: g}
	t.Check(beats.everybody())
	t.Until(func() string { return fmt.Sprintf("%d of %d users are online", watch.Online.Load(), t.Users) },
		func() bool { return watch.Online.Load() >= int64(t.Users) })
	// Else the first probes would wait behind the other arrivals for their turn in Redis.
	t.Until(func() string { return "waiting for the stores to catch up with the arrivals" }, func() bool { return roles.CaughtUp(t.ctx) })
	t.Measured(func() { probes.run(beats, g) })
	t.AddSpread("HTTP beat to committed transition", probes.http.All()).AtMost(50)
	t.AddSpread("Go client's beat to committed transition", probes.client.All()).AtMost(50)
	t.AddSpread("HTTP beat to the API's answer", probes.read.All())
	t.Note(fmt.Sprintf("%d probes; %d users beat every %s.", probes.sent, t.Users, beatInterval))
}

// probes are users who come, and how long it takes until that is known.
type probes struct {
	*T
	api                API
	sent               int
	http, client, read LockedSpread

	mu     sync.Mutex
	begun  map[schemas.UserID]time.Time
	faults []error
	asking sync.WaitGroup
}

// run sends probes for the time of the measurement, lets the other users beat, and waits for all
// answers.
func (p *probes) run(users *beating, g *gateway.Gateway) {
	p.Every(ProbeInterval, p.Length(), func() bool {
		p.Check(users.catchUp())
		p.probe(p.ctx, g)
		p.Progress.Say("  %d probes", p.sent)
		return true
	})
	p.Until(func() string { return fmt.Sprintf("%d probes have not been answered", p.open()) }, func() bool { return p.open() == 0 })
	p.asking.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Check(errors.Join(p.faults...))
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
		p.fault(user, g.Beat(user.String(), deviceName, schemas.Mobile, 0))
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

// published receives the transitions from the consumer.
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
func throughput(t *T) {
	rig := t.Rig()
	d := rig.Detector(Stay(), nil)
	d.Assigned()
	// A client takes a million devices; the margin is for partitions of unequal size.
	n := min(moreUsers*t.Users, 1_000_000)
	users := &beating{users: n, gateway: rig.gateway()}
	t.Check(users.everybody())
	t.Until(func() string { return fmt.Sprintf("%.0f of %d users are online", count(d.metrics.Beats), n) },
		func() bool { return count(d.metrics.Beats) >= float64(n) })
	before, calls := count(d.metrics.Beats), 0
	took := t.Measured(func() {
		for begun := time.Now(); time.Since(begun) < t.Length(); calls += n {
			t.Check(t.ctx.Err())
			t.Check(users.everybody())
			t.Progress.Say("  %d calls", calls)
		}
	}).Seconds()
	t.Add("beats from the Go client to handled by the detector", (count(d.metrics.Beats)-before)/took/1e6, "M beats/s").AtLeast(1)
	t.Add("calls of the Go client, repeats within a second included", float64(calls)/took/1e6, "M/s")
	t.Note(fmt.Sprintf("Throughput with %d users.", n))
}

// count reads a counter.
func count(c prometheus.Counter) float64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return m.GetCounter().GetValue()
}
