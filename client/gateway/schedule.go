package gateway

import (
	"context"
	"sync"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// schedules are when devices send heartbeats. They are never changed.
type schedules struct {
	all     schemas.Schedule
	tenants map[string]schemas.Schedule // of tenants with policies of their own
}

// Schedule is when the devices of these users have to send heartbeats, by Config.HeartbeatInterval or the policy in
// force, which is that of the tenant where it has its own. A change of that is known within 3 s. A gateway passes
// it to each device that connects, and again when it has changed.
func (u Users) Schedule() schemas.Schedule {
	s := u.gateway.schedule.Load()
	if own, ok := s.tenants[u.tenant]; ok {
		return own
	}
	return s.all
}

// under returns the settings of the buffer under the policies, and makes the schedules follow them. The caller
// holds the lock, or is alone.
func (g *Gateway) under() beat.Config {
	settings := g.config.buffer(1).Under(g.inForce, g.tenants)
	settings.NameAlways = g.keys.Bound()
	s := &schedules{all: schemas.ScheduleOf(settings.HeartbeatInterval, g.inForce.HeartbeatJitter),
		tenants: map[string]schemas.Schedule{}}
	for tenant, interval := range settings.Intervals {
		s.tenants[tenant] = schemas.ScheduleOf(interval, g.inForce.For(g.tenants[tenant]).HeartbeatJitter)
	}
	g.schedule.Store(s)
	return settings
}

// change applies a change of the policies.
func (g *Gateway) change(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
	g.buffer.Follow(g.under())
}

// tenantPolicies are the policies of tenants and the erasures of users; nil in int mode.
type tenantPolicies struct {
	*tenants.Directory
	reader *kafka.Reader
	erased *shown.Erasures
	tail   *kafka.Reader // of the erasures
}

// ofTenants reads the policies of tenants for the first time, and finds the end of the erasures.
func (g *Gateway) ofTenants(ctx context.Context, cluster kafka.Config) (*tenantPolicies, error) {
	if !cluster.Users.Text() {
		return nil, nil
	}
	reader, err := kafka.NewReader(cluster, g.config.Log)
	if err != nil {
		return nil, err
	}
	tail, err := kafka.NewReader(cluster, g.config.Log)
	if err != nil {
		reader.Close()
		return nil, err
	}
	of := &tenantPolicies{tenants.NewDirectory(reader, schemas.TenantQuotas{}, g.config.Log), reader, shown.NewErasures(tail, g.config.Log), tail}
	if err := of.Load(ctx); err != nil {
		of.close()
		return nil, err
	}
	if err := of.erased.Open(ctx); err != nil {
		of.close()
		return nil, err
	}
	g.tenants = of.Policies()
	of.Follow(func(policies map[string]*schemas.Policy) { g.change(func() { g.tenants = policies }) })
	return of, nil
}

// close closes the readers. t may be nil.
func (t *tenantPolicies) close() {
	if t != nil {
		t.reader.Close()
		t.tail.Close()
	}
}

// follow makes the gateway follow the policies of tenants and the erasures, of which may be nil, and others until
// unfollow is called.
func (g *Gateway) follow(of *tenantPolicies, others ...func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, other := range others {
		work.Go(func() { other(ctx) })
	}
	if of != nil {
		work.Go(func() { _ = of.Run(ctx) })                         // it ends with ctx
		work.Go(func() { _ = of.erased.Run(ctx, g.buffer.Erased) }) // likewise
	}
	g.unfollow = func() { cancel(); work.Wait(); of.close() }
}
