package virtual

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	clientgateway "github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/backtest"
)

func TestTheUsersOfATenantGoByItsPolicyAndItsViewersHearItsHeartbeatInterval(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		openGraph(w)
		all := w.startAll()
		acme := named{w, all["ingest"].base, all["api"].base, "acme"}
		own := named{w, all["ingest"].base, all["api"].base, ""}
		time.Sleep(5 * time.Second) // the policy of the pipeline is in force
		quick := w.config.Policy
		quick.HeartbeatInterval, quick.OnlineTTL, quick.OfflineDebounce, quick.AwayTTL = 2*time.Second, 4*time.Second, time.Second, 0
		tenant := schemas.TenantPolicy{Tenant: "acme", Policy: &quick}
		set := func(t schemas.TenantPolicy) {
			w.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			must.Do(w, policy.SetTenant(ctx, clusterOf(w.config), t, w.log))
			must.Do(w, policy.Await(ctx, clusterOf(w.config), func(int, int) {}))
		}
		g := w.dial("gw-1")
		intervals := func(acme time.Duration) {
			w.Helper()
			for tenant, want := range map[string]time.Duration{"acme": acme, "": w.config.Policy.HeartbeatInterval} {
				if got := g.Tenant(tenant).Schedule().Interval; got != want || g.Schedule().Interval != w.config.Policy.HeartbeatInterval {
					w.Errorf("the gateway's interval of tenant %q is %s, want %s", tenant, got, want)
				}
			}
		}
		intervals(w.config.Policy.HeartbeatInterval)
		set(tenant)
		time.Sleep(5 * time.Second) // gateways know it
		intervals(2 * time.Second)
		late := w.dial("gw-2")
		if got := late.Tenant("acme").Schedule().Interval; got != 2*time.Second {
			w.Errorf("a new gateway's interval of the tenant is %s, want 2s", got)
		}
		for name, want := range map[string]time.Duration{"acme": 2 * time.Second, "": w.config.Policy.HeartbeatInterval} {
			v := w.listen(watch.Options{URL: all["api"].base + "/presence/stream", Tenant: name, Users: namesakes})
			w.until("a hello", 10*time.Second, func() bool { return len(v.messages(watch.Hello)) > 0 })
			if got := v.messages(watch.Hello)[0].Schedule().Interval; got != want {
				w.Errorf("viewers of tenant %q hear the interval %s, want %s", name, got, want)
			}
			v.stop()
		}
		acme.beat(false)
		own.beat(false)
		time.Sleep(4 * time.Second)
		acme.are(`"online"`)
		time.Sleep(4 * time.Second)
		acme.are(`"offline"`)
		own.are(`"online"`)

		// A detector that starts again judges by the same policy; the tenant gives it up.
		all["detector"].stop()
		w.start("detector", "detector")
		acme.beat(false)
		time.Sleep(8 * time.Second)
		acme.are(`"offline"`)
		set(schemas.TenantPolicy{Tenant: "acme"})
		acme.beat(false)
		time.Sleep(8 * time.Second)
		acme.are(`"online"`)
		intervals(w.config.Policy.HeartbeatInterval)
		must.Do(w, errors.Join(g.Close(context.Background()), late.Close(context.Background())))
		time.Sleep(10 * time.Second) // everything is committed
		w.backtests()
	})
}

// dial connects a gateway of the Go client.
func (w *world) dial(id schemas.GatewayID) *clientgateway.Gateway {
	w.Helper()
	g, err := clientgateway.Dial(context.Background(), clientgateway.Config{ID: id, Key: w.keyOf(id), Log: w.log, IdentityKey: w.config.Kafka.IdentityKey,
		Kafka: client.Kafka{Brokers: w.config.Kafka.Brokers, Dial: w.config.Kafka.Dialer}})
	must.Do(w, err)
	return g
}

// backtests checks that a backtest by the policies of the log finds what was published of each tenant, and that
// a policy that is tried for one tenant changes only its users.
func (w *world) backtests() {
	w.Helper()
	ctx, cluster := context.Background(), clusterOf(w.config)
	published := map[string]int64{}
	w.tap.catchUp()
	for _, partition := range w.tap.committed() {
		for i := range partition {
			published[partition[i].Name.Tenant]++
		}
	}
	patient := backtest.Policy{Name: "patient", Settings: w.config.Policy}
	log := backtest.Policy{Name: "log", AsLogged: true}
	trial := func(tenant *string) (asPublished, byLog, byPatient backtest.Outcome) {
		w.Helper()
		live := must.Get(backtest.OpenLive(ctx, cluster, w.tap.reader, 0))(w)
		r, err := backtest.Run(ctx, live, backtest.Options{Policies: []backtest.Policy{log, patient}, Tenant: tenant})
		must.Do(w, err)
		return r.Policies[0], r.Policies[1], r.Policies[2]
	}
	all, both, same := trial(nil)
	if want := published["acme"] + published[""]; all.Transitions != want || both.Transitions != want || same.Transitions != want || want == 0 {
		w.Errorf("a backtest finds %d changes published, and publishes %d by the log and %d by the pipeline's policy; the pipeline has published %d",
			all.Transitions, both.Transitions, same.Transitions, want)
	}
	for tenant, want := range published {
		asPublished, byLog, byPatient := trial(&tenant)
		if asPublished.Transitions != want || byLog.Transitions != want {
			w.Errorf("of tenant %q a backtest finds %d changes published, and publishes %d by the log; the pipeline has published %d",
				tenant, asPublished.Transitions, byLog.Transitions, want)
		}
		if fewer := byPatient.Transitions < byLog.Transitions; fewer != (tenant == "acme") {
			w.Errorf("of tenant %q %d changes are published by the pipeline's policy, %d by that of the log", tenant, byPatient.Transitions, byLog.Transitions)
		}
	}
}
