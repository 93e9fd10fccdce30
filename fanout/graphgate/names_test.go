package graphgate

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/tenantstest"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// newNamedWorld is a world whose users have names. No sender may name the tenant rival.
func newNamedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.Users = identity.Named(identity.Key{1})
	w.Tenant = func(r *http.Request) (string, error) {
		asked := r.URL.Query().Get("tenant")
		if asked == "rival" {
			return "", &schemas.FieldError{Code: "tenant_not_allowed", Field: "tenant", Reason: "must be that of the token"}
		}
		return asked, nil
	}
	w.Forbidden = func(err error) bool { return strings.Contains(err.Error(), "must be that of the token") }
	mux := w.mux
	w.mux = http.NewServeMux()
	w.mux.Handle("/", web.Alias(mux))
	return w
}

func TestUsersFollowByTheirNamesWithinTheirTenant(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.wants(w.ask("PUT", "/presence/ann%2Fa/followers/bob%2C1", ""), 204, "")
	w.wants(w.ask("PUT", "/presence/users/batch/followers/bob", ""), 204, "")
	w.wants(w.ask("POST", "/presence/followers?tenant=acme", `{"add":[{"user_id":"ann/a","follower_id":"eve"}],"mutual":true}`), 200, `"added":2`)
	w.wants(w.ask("GET", "/presence/ann%2Fa/followers", ""), 200, `{"followers":["bob,1"],"next_cursor":null}`)
	w.wants(w.ask("GET", "/presence/users/batch/followers", ""), 200, `["bob"]`)
	w.wants(w.ask("GET", "/presence/ann%2Fa/followers?tenant=acme", ""), 200, `["eve"]`)
	w.wants(w.ask("GET", "/presence/eve/followers?tenant=acme", ""), 200, `["ann/a"]`)
	w.wants(w.ask("GET", "/presence/eve/followers", ""), 200, `[]`)
	w.wants(w.ask("DELETE", "/presence/ann%2Fa/followers/eve", ""), 204, "")
	w.wants(w.ask("GET", "/presence/ann%2Fa/followers?tenant=acme", ""), 200, `["eve"]`)
	w.wants(w.ask("DELETE", "/presence/ann%2Fa/followers/eve?tenant=acme", ""), 204, "")
	w.wants(w.ask("GET", "/presence/ann%2Fa/followers?tenant=acme", ""), 200, `[]`)
}

func TestBadNamesAndForeignTenantsAreRefused(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	for path, c := range map[string]struct {
		status int
		text   string
	}{
		"PUT /presence/a%00/followers/b":                   {400, `"field":"user_id"`},
		"PUT /presence/a/followers/%FF":                    {400, `"field":"follower_id"`},
		"PUT /presence/a/followers/a":                      {409, "conflict"},
		"PUT /presence/a/followers/b?tenant=a%20b":         {400, `"field":"tenant"`},
		"PUT /presence/a/followers/b?tenant=rival":         {403, "tenant_not_allowed"},
		"GET /presence/a/followers?tenant=rival":           {403, "tenant_not_allowed"},
		"POST /presence/followers?tenant=rival":            {403, "tenant_not_allowed"},
		"DELETE /presence/a/followers/b?tenant=a&tenant=a": {400, `"field":"tenant"`},
	} {
		method, path, _ := strings.Cut(path, " ")
		w.wants(w.ask(method, path, `{}`), c.status, c.text)
	}
	numbers := newWorld(t)
	numbers.wants(numbers.ask("PUT", "/presence/1/followers/2?tenant=a", ""), 400, "unknown_parameter")
}

func TestPagesOfNamesGoOnAfterTheLastName(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	for _, follower := range []string{"a", "b", "c"} {
		w.wants(w.ask("PUT", "/presence/star/followers/"+follower, ""), 204, "")
	}
	seen, path := map[string]bool{}, "/presence/star/followers?limit=1"
	for next := path; next != ""; {
		answer := w.ask("GET", next, "")
		var page struct {
			Followers []string
			Next      string `json:"next_cursor"`
		}
		must.Do(t, json.Unmarshal(answer.Body.Bytes(), &page))
		for _, f := range page.Followers {
			seen[f] = true
		}
		if next = ""; page.Next != "" {
			next = path + "&cursor=" + page.Next
		}
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
}

func TestAUserWithTheIDOfAnotherGetsNoneOfItsFollowers(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	id := w.Users.ID("", "ann")
	bob := w.Users.ID("", "bob")
	if _, _, err := w.graph.Change(t.Context(), []graph.Edge{{User: id, Follower: bob}}, nil,
		graph.Names{id: {Text: "twin of ann"}, bob: schemas.Name{Text: "bob"}}); err != nil {
		t.Fatal(err)
	}
	w.wants(w.ask("GET", "/presence/ann/followers", ""), 200, `[]`)
	w.wants(w.ask("PUT", "/presence/ann/followers/eve", ""), 409, "identity_collision")
}

func TestATenantHasItsQuotaOfChangedEdges(t *testing.T) {
	t.Parallel()
	w := newNamedWorld(t)
	w.Tenants = tenantstest.Accounts(t, schemas.Tenant{Name: "acme", Quotas: schemas.TenantQuotas{ChangesPerSecondPerProcess: 1}})
	w.wants(w.ask("POST", "/presence/followers?tenant=acme", `{"add":[{"user_id":"ann","follower_id":"ben"},{"user_id":"ann","follower_id":"cara"}]}`), 200, "")
	for _, method := range []string{"PUT", "DELETE"} {
		answer := w.ask(method, "/presence/ann/followers/ben?tenant=acme", "")
		w.wants(answer, 429, `"field":"changes_per_second_per_process"`)
		if answer.Header().Get("Retry-After") == "" {
			t.Error("there is no Retry-After")
		}
		w.wants(w.ask(method, "/presence/ann/followers/ben?tenant=other-one", ""), 204, "")
	}
	w.wants(w.ask("GET", "/presence/ann/followers?tenant=acme", ""), 200, `"ben"`)
}
