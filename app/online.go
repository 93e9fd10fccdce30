package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/tick"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

const (
	// onlineInterval is the time between two looks at how many users of each tenant are online.
	onlineInterval = 2 * time.Second
	// onlineMaxAge is how old counts may be to refuse users by them.
	onlineMaxAge = 30 * time.Second
)

// tenantCounts is what redisview.View knows of tenants.
type tenantCounts interface {
	TenantCounts(ctx context.Context, partitions int32) (map[int32]redisview.TenantCounts, error)
}

// onlineCounts holds how many users of each tenant are online or away, for the quotas of users online.
type onlineCounts struct {
	base
	view    tenantCounts
	current atomic.Pointer[map[string]int64] // never changed; nil: not known
}

// boundOnline makes the quotas of users online hold in this process. It needs Redis, which has the
// counts and knows who is present.
func (b *builder) boundOnline(ctx context.Context) error {
	if b.accounts == nil {
		return nil
	}
	if err := b.useReader(ctx); err != nil {
		return err
	}
	counts := &onlineCounts{base: b.base, view: b.view}
	b.accounts.BoundOnline(counts.of, b.reader.Present)
	return b.add(component{services: []service{{"counts of tenants", loops, counts.run}}}, nil)
}

var _ tenants.Online = (*onlineCounts)(nil).of

// of is how many users of a tenant are online; see tenants.Online.
func (o *onlineCounts) of(tenant string) (int64, bool) {
	counts := o.current.Load()
	if counts == nil {
		return 0, false
	}
	return (*counts)[tenant], true
}

// run reads the counts while there are quotas of users online.
func (o *onlineCounts) run(ctx context.Context) error {
	failing := false
	for range tick.Later(ctx, onlineInterval) {
		if !o.tenants.BoundsOnline() {
			o.current.Store(nil)
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, onlineMaxAge)
		all, err := o.view.TenantCounts(bounded, o.partitions)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			o.log.Warn("how many users of tenants are online cannot be read; quotas of users online do not hold meanwhile", "error", err)
		case err == nil && failing:
			o.log.Info("how many users of tenants are online can be read again")
		}
		failing = err != nil
		o.current.Store(sumOfTenants(all, schemas.MillisOf(time.Now().Add(-onlineMaxAge))))
	}
	return nil
}

// sumOfTenants adds up the counts of the partitions that are newer than oldest; nil: there are none.
// What is missing lets newcomers in.
func sumOfTenants(all map[int32]redisview.TenantCounts, oldest schemas.Millis) *map[string]int64 {
	sums := map[string]int64{}
	known := false
	for _, c := range all {
		if c.At < oldest {
			continue
		}
		known = true
		for i := range c.Tenants {
			sums[c.Tenants[i].Tenant] += c.Tenants[i].Present()
		}
	}
	if !known {
		return nil
	}
	return &sums
}
