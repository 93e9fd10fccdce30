package tenants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// accountsWith are Accounts of tenants with these settings.
func accountsWith(t *testing.T, all ...schemas.Tenant) *Accounts {
	t.Helper()
	log := &topic{}
	for _, tenant := range all {
		log.set(tenant)
	}
	d := NewDirectory(log, schemas.DefaultQuotas, slog.New(slog.DiscardHandler))
	must.Do(t, d.Load(t.Context()))
	return NewAccounts(d)
}

func quotasOf(name string, quotas schemas.TenantQuotas) schemas.Tenant {
	return schemas.Tenant{Name: name, Quotas: quotas}
}

func TestABatchPassesWholeAndTheAverageHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := accountsWith(t, quotasOf("acme", schemas.TenantQuotas{BeatsPerSecondPerProcess: 10}))
		acme, quiet := a.Of("acme"), a.Of("quiet")
		passed := 0
		for second := range 100 {
			if over := acme.Beats(25); over == nil {
				passed += 25
			} else if over.Quota != Beats || over.Limit != 10 || over.After <= 0 || over.After > 3*time.Second {
				t.Fatalf("second %d: %+v", second, over)
			}
			if over := quiet.Beats(20); over != nil {
				t.Fatalf("another tenant is refused: %v", over)
			}
			time.Sleep(time.Second)
		}
		if passed < 975 || passed > 1025 {
			t.Errorf("%d beats passed in 100 s at a quota of 10 a second", passed)
		}
		// A wait that is named is enough.
		over := acme.Beats(25)
		for over == nil {
			over = acme.Beats(25)
		}
		time.Sleep(over.After)
		if over := acme.Beats(1); over != nil {
			t.Errorf("after the wait: %v", over)
		}
	})
}

func TestCallersWhoComeBackTogetherGetATenthOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := accountsWith(t) // the default quotas
		passes := func(tenant string) (passed int) {
			for range 1000 {
				if a.Of(tenant).Read(1) == nil {
					passed++
				}
			}
			return passed
		}
		for second := range 3 {
			if passed := passes("acme"); passed != int(schemas.DefaultQuotas.ReadsPerSecondPerProcess)/10 {
				t.Errorf("second %d: %d of 1000 reads at once passed", second, passed)
			}
			time.Sleep(time.Second)
		}
		if passed := passes(""); passed != 1000 {
			t.Errorf("of the default tenant %d of 1000 reads passed", passed)
		}
	})
}

func TestConnectionsAndSubscriptionsAreCountedUntilTheyEnd(t *testing.T) {
	t.Parallel()
	a := accountsWith(t, quotasOf(schemas.AllTenants, schemas.TenantQuotas{ConnectionsPerProcess: 3, SubscriptionsPerProcess: 10}))
	acme := a.Of("acme")
	var all sync.WaitGroup
	var mu sync.Mutex
	open := 0
	for range 50 {
		all.Go(func() {
			if acme.Connect() == nil {
				mu.Lock()
				open++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if open != 3 {
		t.Errorf("%d of 50 connections are open, want 3", open)
	}
	if over := a.Of("other-one").Connect(); over != nil {
		t.Errorf("one tenant's quota is another's: %v", over)
	}
	acme.Disconnect()
	if over := acme.Connect(); over != nil {
		t.Errorf("after one closed: %v", over)
	}
	if over := acme.Subscribe(11); over == nil || over.Quota != Subscriptions {
		t.Errorf("11 subscriptions at a quota of 10: %v", over)
	}
	if acme.Subscribe(10) != nil || acme.Subscribe(1) == nil {
		t.Error("the subscriptions are not counted")
	}
	acme.Unsubscribe(10)
	if over := acme.Subscribe(10); over != nil {
		t.Errorf("after they ended: %v", over)
	}
}

func TestALongListOfEdgesDoesNotKeepAUserFromHiding(t *testing.T) {
	t.Parallel()
	acme := accountsWith(t, quotasOf("acme", schemas.TenantQuotas{ChangesPerSecondPerProcess: 1})).Of("acme")
	if over := acme.Change(Edges, 1000); over != nil {
		t.Errorf("the first request: %v", over)
	}
	if over := acme.Change(Edges, 1); over == nil || over.Quota != Changes || over.After < time.Minute {
		t.Errorf("the second request: %v", over)
	}
	if over := acme.Change(Visibility, 1); over != nil {
		t.Errorf("a change of visibility: %v", over)
	}
}

func TestNewcomersAreRefusedWhileATenantIsFullAndOthersGoOn(t *testing.T) {
	t.Parallel()
	a := accountsWith(t, quotasOf("acme", online(100)))
	count, known, fails := int64(100), true, error(nil)
	a.BoundOnline(func(string) (int64, bool) { return count, known }, func(_ context.Context, users []schemas.UserID) ([]bool, error) {
		present := make([]bool, len(users))
		for i, user := range users {
			present[i] = user < 10
		}
		return present, fails
	})
	newcomers := func(tenant string, users ...schemas.UserID) []bool {
		refused, over := a.Of(tenant).Newcomers(t.Context(), users)
		if (over != nil) != slices.Contains(refused, true) || over != nil && (over.Quota != UsersOnline || over.Limit != 100) {
			t.Errorf("%v with %v", refused, over)
		}
		return refused
	}
	if refused := newcomers("acme", 1, 42, 2); !slices.Equal(refused, []bool{false, true, false}) {
		t.Errorf("a full tenant refuses %v", refused)
	}
	if refused := newcomers("acme", 1, 2); refused != nil {
		t.Errorf("a full tenant refuses users who are online: %v", refused)
	}
	if refused := newcomers("other-one", 42); refused != nil {
		t.Errorf("a tenant without a quota refuses %v", refused)
	}
	count = 99
	if refused := newcomers("acme", 42); refused != nil {
		t.Errorf("with room for one more a tenant refuses %v", refused)
	}
	count, fails = 100, errors.New("no Redis")
	if refused := newcomers("acme", 42); refused != nil {
		t.Errorf("where nobody knows who is present a tenant refuses %v", refused)
	}
	fails, known = nil, false
	if refused := newcomers("acme", 42); refused != nil {
		t.Errorf("without a count a tenant refuses %v", refused)
	}
}

func TestReadsHaveAQuotaOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := accountsWith(t, quotasOf("acme", schemas.TenantQuotas{ReadsPerSecondPerProcess: 10, BeatsPerSecondPerProcess: 1}))
		acme := a.Of("acme")
		passed := 0
		for range 1000 {
			if over := acme.Read(2); over == nil {
				passed += 2
			} else if over.Quota != Reads || over.Limit != 10 {
				t.Fatalf("%+v", over)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if passed < 100 || passed > 112 {
			t.Errorf("%d reads passed in 10 s at a quota of 10 a second", passed)
		}
		if over := acme.Beats(1); over != nil {
			t.Errorf("reads count as beats: %v", over)
		}
	})
}

func TestARefusalNamesTheQuotaAndWhenToTryAgain(t *testing.T) {
	t.Parallel()
	over := &OverQuota{Tenant: "acme", Quota: Connections, Limit: 3, After: 1500 * time.Millisecond}
	w := httptest.NewRecorder()
	var known *web.Refusal
	if !errors.As(over, &known) {
		t.Fatalf("%v is no refusal", over)
	}
	web.Write(w, known.Status, over)
	want := `{"error":{"code":"tenant_quota","message":"connections_per_process: tenant \"acme\" is at its quota of 3; try again later","field":"connections_per_process"}}`
	if got := strings.TrimSpace(w.Body.String()); w.Code != 429 || w.Header().Get("Retry-After") != "2" || got != want {
		t.Errorf("%d, Retry-After %s, %s", w.Code, w.Header().Get("Retry-After"), got)
	}
}

func TestMetricsNameTheLargestTenantsAndSumTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := accountsWith(t, quotasOf("large", schemas.TenantQuotas{SubscriptionsPerProcess: 1}))
		for i := range maxNamed {
			a.Of(fmt.Sprintf("t%d", i)).Beats(10)
		}
		a.Of(Other).Beats(1)
		a.Of("small").Beats(7)
		a.Of("large").Beats(1000)
		has := func(when, line string) {
			t.Helper()
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(a)
			families := must.Get(registry.Gather())(t)
			var text strings.Builder
			for _, family := range families {
				for _, m := range family.GetMetric() {
					var labels []string
					for _, l := range m.GetLabel() {
						labels = append(labels, l.GetValue())
					}
					fmt.Fprintf(&text, "%s%v %v\n", family.GetName(), labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
				}
			}
			if !strings.Contains(text.String(), line+"\n") {
				t.Errorf("%s there is no %q in\n%s", when, line, text.String())
			}
		}
		has("before the first ranking", "stillhere_tenant_beats_total[*] 1008")
		time.Sleep(rankInterval)
		if n := testutil.CollectAndCount(a, "stillhere_tenant_beats_total"); n != maxNamed+1 {
			t.Errorf("there are %d series, want %d", n, maxNamed+1)
		}
		a.Of("large").Beats(5)
		a.Of("large").Subscribe(2)
		a.Of("t7").Read(1)
		a.Of("small").Connect()
		has("after a ranking", "stillhere_tenant_beats_total[large] 5")
		has("after a ranking", "stillhere_tenant_beats_total[*] 1008")
		has("after a ranking", "stillhere_tenant_refused_total[subscriptions_per_process large] 1")
		has("after a ranking", "stillhere_tenant_connections[*] 1")
	})
}

func TestInventedTenantsNeedBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := accountsWith(t, quotasOf(schemas.AllTenants, schemas.TenantQuotas{ConnectionsPerProcess: 1, BeatsPerSecondPerProcess: 1}))
		a.most = 500
		held := a.Of("holds-a-connection")
		held.Connect()
		a.Of("t400").Beats(3600) // in debt for an hour
		for i := range 2000 {
			a.Of(fmt.Sprintf("t%d", i)).Beats(1)
		}
		if n := len(a.accounts); n != 500 {
			t.Errorf("%d tenants are remembered, want 500", n)
		}
		if a.Of("one-more") != a.rest || a.rest.Connect() != nil || a.rest.Connect() != nil {
			t.Error("tenants without an account are refused")
		}
		time.Sleep(2 * idleAfter)
		a.Of("one-more").Beats(1)
		if a.Of("one-more") == a.rest || a.Of("holds-a-connection") != held || a.Of("t400").Beats(1) == nil {
			t.Error("an idle tenant keeps others out, or one that is in use was forgotten")
		}
		if n := len(a.accounts); n > 200 {
			t.Errorf("%d tenants are remembered after they were idle", n)
		}
	})
}

func TestCountingAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	a := accountsWith(t, quotasOf("acme", schemas.TenantQuotas{BeatsPerSecondPerProcess: 1 << 40, UsersOnline: 5}))
	a.BoundOnline(func(string) (int64, bool) { return 1, true }, nil)
	var none *Accounts
	if n := testing.AllocsPerRun(100, func() {
		acme := a.Of("acme")
		if acme.Beats(1) != nil || acme.Full() || acme.Connect() != nil || none.Of("acme").Beats(1) != nil || none.Of("acme").Full() {
			t.Error("refused")
		}
		acme.Read(1)
		acme.Disconnect()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
