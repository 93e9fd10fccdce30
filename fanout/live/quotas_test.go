package live_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/internal/testkit/tenantstest"
	"github.com/stillhere/stillhere/schemas"
)

// refuses fails unless a stream is answered 429 for the quota.
func (g *rig) refuses(query, quota string) {
	g.t.Helper()
	r := must.Get(http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.http.URL+query, nil))(g.t)
	r.Header.Set("Accept", "text/event-stream")
	answer := must.Get(http.DefaultClient.Do(r))(g.t)
	defer answer.Body.Close()
	body := make([]byte, 1000)
	n, _ := answer.Body.Read(body)
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" || !strings.Contains(string(body[:n]), `"field":"`+quota+`"`) {
		g.t.Errorf("%s is answered %d %s", query, answer.StatusCode, body[:n])
	}
}

func TestATenantHasItsQuotaOfStreams(t *testing.T) {
	t.Parallel()
	accounts := tenantstest.Accounts(t, schemas.Tenant{Name: "acme", Quotas: schemas.TenantQuotas{ConnectionsPerProcess: 1}})
	g := newRigWith(t, redistest.Mini(t), people, accounts)
	p := g.dialAt(g.url() + "?tenant=acme")
	g.refuses("?tenant=acme&user_ids=ann", "connections_per_process")
	g.dialAt(g.url() + "?tenant=other-one")
	must.Do(t, p.conn.Close(websocket.StatusNormalClosure, ""))
	g.await(func() bool { over := accounts.Of("acme").Connect(); return over == nil }, func() string { return "a closed stream is still counted" })
}

func TestATenantHasItsQuotaOfSubscriptions(t *testing.T) {
	t.Parallel()
	accounts := tenantstest.Accounts(t, schemas.Tenant{Name: "acme", Quotas: schemas.TenantQuotas{SubscriptionsPerProcess: 5}})
	g := newRigWith(t, redistest.Mini(t), people, accounts)
	room := func(acme *tenants.Account) bool {
		if acme.Subscribe(5) != nil {
			return false
		}
		acme.Unsubscribe(5)
		return true
	}
	p, other := g.dialAt(g.url()+"?tenant=acme"), g.dialAt(g.url()+"?tenant=other-one")
	p.send(`{"type":"subscribe","user_ids":["a","b","c"]}`)
	p.wants(`{"type":"snapshot"`)
	p.send(`{"type":"subscribe","user_ids":["a","d","e","f"]}`) // six together
	p.wants(`{"type":"error","error":{"code":"tenant_quota","message":"subscriptions_per_process: `)
	g.refuses("?tenant=acme&user_ids=a&user_ids=b&user_ids=c", "subscriptions_per_process")
	other.send(`{"type":"subscribe","user_ids":["a","b","c","d","e","f"]}`)
	other.wants(`{"type":"snapshot"`)
	p.send(`{"type":"unsubscribe","user_ids":["a","b"]}`)
	p.send(`{"type":"subscribe","user_ids":["d","e","f","g"]}`)
	p.wants(`{"type":"snapshot"`)
	p.send(`{"type":"subscribe","user_ids":["h"]}`)
	p.wants(`{"type":"error","error":{"code":"tenant_quota"`)
	must.Do(t, p.conn.CloseNow())
	g.await(func() bool { return room(accounts.Of("acme")) }, func() string { return "subscriptions of a closed stream are still counted" })

	// Server-Sent Events reserve theirs with the request.
	events, err := http.Get(g.http.URL + "?tenant=acme&user_ids=a&user_ids=b&user_ids=c")
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatal(events, err)
	}
	g.await(func() bool { return !room(accounts.Of("acme")) }, func() string { return "the subscriptions of events are not counted" })
	g.refuses("?tenant=acme&user_ids=a&user_ids=b&user_ids=c", "subscriptions_per_process")
	events.Body.Close()
	g.await(func() bool { return room(accounts.Of("acme")) }, func() string { return "subscriptions of closed events are still counted" })
}
