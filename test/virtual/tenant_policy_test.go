package virtual

import (
	"context"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/watch"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheUsersOfATenantGoByItsPolicyAndItsViewersHearItsHeartbeatInterval(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		openGraph(w).Close()
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
			if err := policy.SetTenant(ctx, clusterOf(w.config), t, w.log); err != nil {
				w.Fatal(err)
			}
			if err := policy.AwaitTenant(ctx, clusterOf(w.config), t, 2, func(int32, int32) {}); err != nil {
				w.Fatal(err)
			}
		}
		set(tenant)
		time.Sleep(5 * time.Second) // gateways know it
		for name, want := range map[string]time.Duration{"acme": 2 * time.Second, "": w.config.Policy.HeartbeatInterval} {
			ctx, cancel := context.WithCancel(w.Context())
			for m, err := range watch.Messages(ctx, watch.Options{URL: all["api"].base + "/presence/stream?tenant=" + name, Names: namesakes, Client: w.http}) {
				if err != nil {
					w.Fatalf("watching: %v", err)
				}
				if m.Type == watch.Hello {
					if got := m.Schedule().Interval; got != want {
						w.Errorf("viewers of tenant %q hear the interval %s, want %s", name, got, want)
					}
					break
				}
			}
			cancel()
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
	})
}
