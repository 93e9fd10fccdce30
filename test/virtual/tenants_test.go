package virtual

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// settings writes those of tenant acme and waits until all processes have them.
func (w *world) settings(quotas schemas.TenantQuotas) {
	w.Helper()
	must.Do(w, tenants.Set(w.Context(), clusterOf(w.config), schemas.Tenant{Name: "acme", Quotas: quotas}, w.log))
	time.Sleep(2 * tenants.Interval)
}

// posts sends a beat of one user and wants a status, and in the answer a text.
func (n named) posts(user string, status int, text string) {
	n.Helper()
	body := map[string]any{"beats": []any{map[string]any{"user_id": user, "device_id": "phone"}}}
	if got, answer := n.ask(http.MethodPost, n.ingest+"/presence/heartbeats"+n.query(), body); got != status || !strings.Contains(string(answer), text) {
		n.Errorf("a beat of %q of tenant %q is answered %d %s, want %d %s", user, n.tenant, got, answer, status, text)
	}
}

func TestATenantOverItsQuotasIsRefusedAndAnotherIsUndisturbed(t *testing.T) {
	inWorld(t, size{partitions: 2, named: true}, func(w *world) {
		openGraph(w)
		all := w.startAll()
		acme := named{w, all["ingest"].base, all["api"].base, "acme"}
		quiet := named{w, all["ingest"].base, all["api"].base, "quiet"}
		// Without settings the defaults bound a tenant with a name.
		for range 20 / len(namesakes) {
			acme.beat(false)
		}
		acme.posts(namesakes[0], http.StatusTooManyRequests, "quota of 200;")

		w.settings(schemas.TenantQuotas{BeatsPerSecondPerProcess: 4, ConnectionsPerProcess: 1, ChangesPerSecondPerProcess: 1, SubscriptionsPerProcess: 2})
		acme.beat(false)
		acme.posts(namesakes[0], http.StatusTooManyRequests, "beats_per_second_per_process")
		for range 20 {
			quiet.beat(false)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		s := w.connectAs(acme.ingest, "tenant=acme&user_id=ann&device_id=a")
		//nolint:bodyclose // Dial has read the body; it needs no closing, it says.
		_, answer, err := websocket.Dial(context.Background(), strings.Replace(acme.ingest, "http", "ws", 1)+"/presence/connect?tenant=acme&user_id=ben&device_id=a",
			&websocket.DialOptions{HTTPClient: w.http})
		if err == nil || answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
			w.Errorf("a second socket is answered %+v, %v", answer, err)
		}
		w.connectAs(quiet.ingest, "tenant=quiet&user_id=ann&device_id=a").leave()
		s.say(`{"type":"subscribe","user_ids":["batch","42"]}`)
		s.say(`{"type":"subscribe","user_ids":["another"]}`)
		w.until("an error of the third subscription", 5*time.Second, func() bool { return s.heardOf(`{"type":"error","error":{"code":"tenant_quota"`) == 1 })
		if s.heardOf(`{"type":"snapshot"`) != 1 {
			w.Errorf("the socket heard %v", s.messages())
		}
		s.leave()
		friend := acme.api + "/presence/ann/followers/"
		for i, want := range []int{http.StatusNoContent, http.StatusTooManyRequests} {
			if status, body := w.ask(http.MethodPut, friend+"ben?tenant=acme", nil); status != want {
				w.Errorf("change %d of the graph is answered %d %s", i, status, body)
			}
		}
		if status, body := w.ask(http.MethodPut, friend+"ben?tenant=quiet", nil); status != http.StatusNoContent {
			w.Errorf("another tenant's change of the graph is answered %d %s", status, body)
		}
		quiet.are(`"online"`)

		// A full tenant keeps its users: those of namesakes, and ann while she is away.
		w.settings(schemas.TenantQuotas{UsersOnline: int64(len(namesakes))})
		time.Sleep(10 * time.Second)
		acme.beat(false)
		acme.posts("newcomer", http.StatusTooManyRequests, "users_online")
		quiet.posts("newcomer", http.StatusAccepted, `{"accepted":1}`)
		acme.beat(true)
		w.until("room for a newcomer", time.Minute, func() bool {
			status, _ := w.ask(http.MethodPost, acme.ingest+"/presence/heartbeats?tenant=acme", map[string]any{"beats": []any{map[string]any{"user_id": "newcomer", "device_id": "phone"}}})
			return status == http.StatusAccepted
		})

		_, metrics := w.ask(http.MethodGet, all["ingest"].admin+"/metrics", nil)
		for _, line := range []string{`stillhere_tenant_refused_total{quota="users_online",tenant="acme"} `,
			`stillhere_tenant_refused_total{quota="connections_per_process",tenant="acme"} 1`, `stillhere_tenant_connections{tenant="acme"} 0`,
			`stillhere_tenant_beats_total{tenant="quiet"} `} {
			if !strings.Contains(string(metrics), "\n"+line) {
				w.Errorf("the metrics of ingest lack %s", line)
			}
		}
		if strings.Contains(string(metrics), `stillhere_tenant_refused_total{quota="users_online",tenant="quiet"}`) {
			w.Error("the quiet tenant was refused")
		}
	})
}
