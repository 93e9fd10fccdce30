package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/stillhere/stillhere/schemas"
)

// routes serves the tenants of a log.
type routes struct {
	removed string
	rates   map[string]*rate.Limiter
}

func (r *routes) Wants(t *schemas.Transition) bool {
	return r.removed == "" || t.Name.Tenant != r.removed
}
func (r *routes) Limit(tenant string) *rate.Limiter { return r.rates[tenant] }
func tenantOf(n schemas.Notice) string              { return n.Transition.Name.Tenant }
func versionsOf(all []schemas.Notice, tenant string) (v []schemas.Version) {
	for _, n := range all {
		if tenantOf(n) == tenant {
			v = append(v, n.Transition.Version)
		}
	}
	return v
}

// tenantLog is a partition with changes of tenants: rounds of one of each, each of another user.
func tenantLog(tenants []string, rounds int) (log []Item) {
	for round := range rounds {
		for i, tenant := range tenants {
			offset := int64(len(log))
			it := item(offset, schemas.UserID(1+i*rounds+round), schemas.Version(offset+1), 1)
			it.Delivery.Transition.Name = schemas.Name{Tenant: tenant, Text: fmt.Sprint("user ", round)}
			it.Record.Time = schemas.MillisOf(time.Now())
			log = append(log, it)
		}
	}
	return log
}

// routed makes a consumer of a log with a receiver for each tenant.
func routed(t *testing.T, config Config, to Channel, log []Item, by *routes) (*Consumer, *letters) {
	t.Helper()
	c, l := newConsumer(t, config, to)
	c.text = true
	c.Route(by, func(ctx context.Context, _ int32, from, to int64, each func(Item) error) error {
		for _, item := range log[from:to] {
			if err := errors.Join(ctx.Err(), each(item)); err != nil {
				return err
			}
		}
		return nil
	})
	return c, l
}

// kinds are tenants of which one fails, one is slow, and the others answer.
func kinds(answering int) (all []string) {
	for i := range answering {
		all = append(all, fmt.Sprint("t", i))
	}
	return append(all, "dead", "slow")
}

// receivers fail for dead, take 5 s for slow and 1 ms for others.
func receivers() *fake {
	return &fake{fail: func(n schemas.Notice) error {
		if tenantOf(n) == "dead" {
			return errAway
		}
		return nil
	}}
}

// pacing makes a channel take its time before it delivers.
type pacing struct{ *fake }

func (p pacing) Deliver(ctx context.Context, n schemas.Notice) error {
	d := time.Millisecond
	if tenantOf(n) == "slow" {
		d = 5 * time.Second
	}
	select {
	case <-time.After(d):
		return p.fake.Deliver(ctx, n)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestATenantWhoseReceiverIsDeadOrSlowDelaysNoOtherAndLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rounds = 120
		tenants := kinds(1_200)
		log := tenantLog(tenants, rounds)
		config := Defaults()
		config.MaxBehind = 0
		f := receivers()
		c, l := routed(t, config, pacing{f}, log, &routes{})
		begun := time.Now()
		if err := c.Apply(t.Context(), batch(log...)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("reading waited %s for receivers", took)
		}
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		f.mu.Lock()
		quick := map[string]int{}
		for _, n := range f.told {
			quick[tenantOf(n)]++
		}
		f.mu.Unlock()
		for _, tenant := range tenants[:len(tenants)-2] {
			if quick[tenant] != rounds {
				t.Fatalf("tenant %s has %d of %d deliveries after 2 s", tenant, quick[tenant], rounds)
			}
		}
		if first, inHand := c.InHand(3); !inHand || first >= int64(2*len(tenants)) {
			t.Errorf("up to %d may be committed (%t), and dead and slow have not got theirs", first, inHand)
		}
		p := c.partition(t.Context(), 3)
		p.work.Wait()
		if got := versionsOf(f.told, "slow"); len(got) != rounds || len(l.reasons) != rounds {
			t.Errorf("slow has %d deliveries, dead has %d dead letters; want %d of both", len(got), len(l.reasons), rounds)
		}
		if first, inHand := c.Finish(t.Context(), 3); inHand || len(p.lanes) != 0 {
			t.Errorf("in hand from %d at the end: %t; lanes: %d", first, inHand, len(p.lanes))
		}
	})
}

func TestOffsetsGoOnWhateverOneTenantsReceiverDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := Defaults()
		config.MaxBehind, config.TenantQueue = 10*time.Minute, 10
		f := &fake{}
		hang := fakeHang{f, "dead"}
		var log []Item
		c, l := routed(t, config, hang, nil, &routes{})
		c.reread = func(_ context.Context, _ int32, from, to int64, each func(Item) error) error {
			for _, item := range log[from:to] {
				if err := each(item); err != nil {
					return err
				}
			}
			return nil
		}
		for second := range 3600 {
			for _, it := range tenantLog([]string{"dead", "acme"}, 1) {
				offset := int64(len(log))
				it.Record.Offset, it.Delivery.Transition.User, it.Delivery.Transition.Version = offset, schemas.UserID(1+offset), schemas.Version(offset+1)
				log = append(log, it)
			}
			if err := c.Apply(t.Context(), batch(log[2*second:]...)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if first, inHand := c.InHand(3); inHand {
				if age := time.Since(log[first].Record.Time.Time()); age > config.MaxBehind+2*config.MaxWait*time.Duration(config.Attempts) {
					t.Fatalf("after %d s the offset stands at a record of %s ago", second, age)
				}
			}
		}
		if acme := versionsOf(f.told, "acme"); len(acme) != 3600 {
			t.Errorf("acme has %d deliveries", len(acme))
		}
		c.partition(t.Context(), 3).work.Wait()
		if len(l.reasons) != 3600 {
			t.Errorf("%d dead letters", len(l.reasons))
		}
	})
}

// fakeHang answers a tenant only when the try has timed out.
type fakeHang struct {
	*fake
	tenant string
}

func (f fakeHang) Deliver(ctx context.Context, n schemas.Notice) error {
	if tenantOf(n) == f.tenant {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.fake.Deliver(ctx, n)
}

func TestARestartWhileATenantIsBehindLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := tenantLog(kinds(20), 400)
		config := Defaults()
		config.MaxBehind = 0
		f, dead := receivers(), 0
		from, restarts := int64(0), 0
		for done := false; !done; restarts++ {
			c, l := routed(t, config, pacing{f}, log, &routes{})
			if err := c.Apply(t.Context(), batch(log[from:]...)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second)
			first, inHand := c.Finish(t.Context(), 3)
			if dead += len(l.reasons); inHand {
				if first < from {
					t.Fatalf("from %d to %d", from, first)
				}
				from = first
			}
			done = !inHand
		}
		got := map[string]map[schemas.Version]bool{}
		for _, n := range f.told {
			if got[tenantOf(n)] == nil {
				got[tenantOf(n)] = map[schemas.Version]bool{}
			}
			got[tenantOf(n)][n.Transition.Version] = true
		}
		for _, tenant := range kinds(20) {
			if n := len(got[tenant]); tenant != "dead" && n != 400 {
				t.Errorf("tenant %s has %d of 400 deliveries", tenant, n)
			}
		}
		if dead < 400 || restarts < 2 {
			t.Errorf("%d dead letters of 400 deliveries; %d restarts", dead, restarts)
		}
	})
}

func TestNobodyGetsWhatIsOfATenantWithoutReceiverOrOfAUserWithoutName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := tenantLog([]string{"", "acme", "other"}, 2)
		log[3].Delivery.Transition.Name = schemas.Name{} // whose name is not known: not one of the default tenant
		f := &fake{}
		by := &routes{removed: "other"}
		c, l := routed(t, Defaults(), f, log, by)
		if err := apply(c, t.Context(), batch(log...)); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(f.told, func(a, b schemas.Notice) int { return int(a.Transition.Version) - int(b.Transition.Version) })
		var got []string
		for _, n := range f.told {
			got = append(got, tenantOf(n))
		}
		if !slices.Equal(got, []string{"", "acme", "acme"}) || len(l.reasons) != 0 {
			t.Errorf("delivered for %q, dead letters %v", got, l.reasons)
		}
	})
}

func TestATenantsRateHoldsForItAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := tenantLog([]string{"acme", "other"}, 60)
		f := &fake{}
		c, _ := routed(t, Defaults(), f, log, &routes{rates: map[string]*rate.Limiter{"acme": rate.NewLimiter(1, 1)}})
		if err := c.Apply(t.Context(), batch(log...)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		f.mu.Lock()
		acme, other := len(versionsOf(f.told, "acme")), len(versionsOf(f.told, "other"))
		f.mu.Unlock()
		if acme < 9 || acme > 12 || other != 60 {
			t.Errorf("after 10 s at 1/s acme has %d, other has %d of 60", acme, other)
		}
		c.partition(t.Context(), 3).work.Wait()
		c.Finish(t.Context(), 3)
	})
}
