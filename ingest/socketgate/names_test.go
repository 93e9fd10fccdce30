package socketgate_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/ingest/socketgate"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// people are the users of a pipeline with --ids text.
var people = identity.Named(identity.Key{1})

func byName() ingest.Config {
	cfg := config()
	cfg.Users = people
	return cfg
}

func TestASocketIsOfTheUserWhomItNames(t *testing.T) {
	t.Parallel()
	watches := ""
	open := func(_ schemas.UserID, name schemas.Name, _ bool, _ func([]byte) error) (func([]byte) bool, func()) {
		watches = name.Tenant
		return func([]byte) bool { return false }, func() {}
	}
	inBubble(t, byName(), open, func(d endpoint) {
		name := schemas.Name{Tenant: "acme", Text: "ann, of 7/9"}
		ann := said{user: people.ID("acme", name.Text), device: people.DeviceID("acme", name.Text, "phone 1"), kind: schemas.Web}
		p := d.connect("tenant=acme&device_kind=web&" + url.Values{"user_id": {name.Text}, "device_id": {"phone 1"}}.Encode())
		p.ping()
		first := ann
		first.name = name
		d.expect(first, first)
		if watches != "acme" {
			t.Errorf("the socket watches users of tenant %q", watches)
		}
		p.close(websocket.StatusNormalClosure)
		ann.kind, ann.bye = 0, true
		d.expect(ann)
	})
}

// refused is the answer to a connect that no WebSocket handshake follows: 426 if nothing was wrong.
func refused(t *testing.T, cfg ingest.Config, query string, caller *ingest.Caller) (int, string) {
	t.Helper()
	g := must.Get(socketgate.New(cfg, &recorder{}, nil, ingest.NewMetrics(nil)))(t)
	mux := http.NewServeMux()
	g.Routes(mux)
	r := httptest.NewRequest(http.MethodGet, "/presence/connect?"+query, nil)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r.WithContext(ingest.WithCaller(context.Background(), caller)))
	return w.Code, faultOf(t, w.Body.Bytes())
}

func faultOf(t *testing.T, body []byte) string {
	t.Helper()
	var answer struct {
		Error struct{ Code, Field string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return answer.Error.Code + " " + answer.Error.Field
}

func TestASocketOfOneTenantReachesNobodyOfAnother(t *testing.T) {
	t.Parallel()
	ann := func(tenant string) *ingest.Caller {
		return &ingest.Caller{User: people.ID(tenant, "ann"), Name: schemas.Name{Tenant: tenant, Text: "ann"}, Tenant: tenant, Bound: true}
	}
	acme := &ingest.Caller{Gateway: "gw", Tenant: "acme", Bound: true}
	for _, c := range []struct {
		caller *ingest.Caller
		query  string
		status int
		fault  string
	}{
		{ann("acme"), "", 426, "upgrade_required "},
		{ann("acme"), "tenant=acme", 426, "upgrade_required "},
		{ann("acme"), "user_id=ann", 426, "upgrade_required "},
		{ann("acme"), "tenant=evil", 403, "tenant_not_allowed tenant"},
		{ann("acme"), "tenant=", 403, "tenant_not_allowed tenant"},
		{ann("acme"), "tenant=evil&user_id=ann", 403, "tenant_not_allowed tenant"},
		{ann("acme"), "user_id=bob", 403, "forbidden user_id"},
		{ann("acme"), "user_id=" + people.ID("evil", "ann").String(), 403, "forbidden user_id"},
		{ann(""), "tenant=acme", 403, "tenant_not_allowed tenant"},
		// A bye over a socket is of the ingest process: a gateway's would end devices of other sockets.
		{acme, "user_id=bob", 403, "forbidden "},
		{acme, "tenant=evil&user_id=bob", 403, "tenant_not_allowed tenant"},
		{&ingest.Caller{Gateway: "gw"}, "tenant=evil&user_id=bob", 403, "forbidden "},
		{&ingest.Caller{Gateway: "gw", Any: true}, "tenant=evil&user_id=bob", 426, "upgrade_required "},
		{&ingest.Caller{Gateway: "gw", Tenants: []string{"acme", "beta"}, Bound: true}, "tenant=beta&user_id=bob", 403, "forbidden "},
		{&ingest.Caller{Gateway: "gw", Tenants: []string{"acme", "beta"}, Bound: true}, "tenant=evil&user_id=bob", 403, "tenant_not_allowed tenant"},
		{&ingest.Caller{Gateway: "gw", Tenants: []string{"acme", "beta"}, Bound: true}, "user_id=bob", 400, "tenant_needed tenant"},
		{&ingest.Caller{User: 7, Any: true}, "tenant=acme", 400, "invalid_name user_id"},
	} {
		if status, fault := refused(t, byName(), "device_id=a&"+c.query, c.caller); status != c.status || fault != c.fault {
			t.Errorf("%+v, %s: got %d %s, want %d %s", c.caller, c.query, status, fault, c.status, c.fault)
		}
	}
}

func TestEachModeOfSocketsNamesTheParameterThatItRefuses(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][2]string{
		"user_id=ann&device_id=7":               {"invalid_user_id user_id", "upgrade_required "},
		"user_id=1&device_id=a":                 {"invalid_device_id device_id", "upgrade_required "},
		"user_id=1&device_id=7":                 {"upgrade_required ", "upgrade_required "},
		"device_id=7":                           {"invalid_user_id user_id", "invalid_name user_id"},
		"user_id=1":                             {"invalid_device_id device_id", "invalid_name device_id"},
		"user_id=1&device_id=7&tenant=a":        {"tenants_need_text_ids tenant", "upgrade_required "},
		"user_id=1&device_id=7&tenant=a%2Fb":    {"tenants_need_text_ids tenant", "invalid_tenant tenant"},
		"user_id=%00&device_id=7":               {"invalid_user_id user_id", "invalid_name user_id"},
		"user_id=1&device_id=7&tenant=&tenant=": {"repeated_field tenant", "repeated_field tenant"},
	} {
		for i, cfg := range []ingest.Config{config(), byName()} {
			if _, got := refused(t, cfg, query, nil); got != want[i] {
				t.Errorf("%s with %s: got %s, want %s", query, cfg.Users, got, want[i])
			}
		}
	}
}
