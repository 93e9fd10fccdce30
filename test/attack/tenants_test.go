//go:build unix

package attack_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
	"github.com/stillhere/stillhere/test/testkit"
)

// Two tenants share a pipeline: acme, and evil, who attacks. victim is a user of acme, absent a name that
// nobody has. Whatever evil asks about victim must be answered as what it asks about absent.
const (
	victim = "zoe-of-acme-secret"
	absent = "abe-of-nobody-here"
)

// tenants is a dev whose users have names, attacked by evil.
type tenants struct {
	*testkit.Dev
	users   identity.Users
	root    string            // token of an administrator of all tenants
	callers map[string]string // tokens of evil
}

// attempt is a request about a user, or about several. tenant is what its parameter or field says; nil: nothing.
type attempt func(name string, tenant *string) request

type request struct{ method, path, body, kind string }

// below makes requests about one user in both forms of its path.
func below(method, rest, body string) []attempt {
	var all []attempt
	for _, form := range []string{"/presence/", "/presence/users/"} {
		all = append(all, func(name string, tenant *string) request {
			return request{method, form + url.PathEscape(name) + rest + query(tenant), body, ""}
		})
	}
	return all
}

func query(tenant *string, more ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(more); i += 2 {
		values.Add(more[i], more[i+1])
	}
	if tenant != nil {
		values.Set("tenant", *tenant)
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// listed makes requests whose parameter or body lists users.
func listed(method, path string, body func(name string) any) []attempt {
	return []attempt{func(name string, tenant *string) request {
		if body == nil {
			return request{method, path + query(tenant, "user_ids", name, "user_ids", name), "", ""}
		}
		return request{method, path + query(tenant), asJSON(body(name)), ""}
	}}
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return string(text)
}

// attempts are what is tried at each endpoint of openapi.yaml. Streams are tried by
// TestNoStreamShowsUsersOfAnotherTenant.
var attempts = map[string][]attempt{
	"POST /presence/heartbeats": slices.Concat(
		listed("POST", "/presence/heartbeats", func(name string) any {
			return map[string]any{"beats": []any{map[string]any{"user_id": name, "device_id": "d", "bye": true}}}
		}),
		[]attempt{beatsWithTenants, beatsInProtobuf}),
	"POST /presence/connections": {func(name string, tenant *string) request {
		event := map[string]any{"event": "disconnected", "reason": "closed", "connection_id": "c", "user_id": name, "device_id": "phone"}
		return request{"POST", "/presence/connections" + query(tenant),
			asJSON(map[string]any{"gateway_id": "gw-1", "replace": true, "events": []any{event}}), ""}
	}},
	"GET /presence/stream": nil,
	"GET /presence/batch":  listed("GET", "/presence/batch", nil),
	"GET /presence/push":   listed("GET", "/presence/push", nil),
	"POST /presence/batch": listed("POST", "/presence/batch", func(name string) any { return map[string]any{"user_ids": []string{name}, "detail": true} }),
	"GET /presence/count": {func(_ string, tenant *string) request {
		return request{"GET", "/presence/count" + query(tenant), "", ""}
	}},
	"GET /presence/changes": listed("GET", "/presence/changes", nil),
	"POST /presence/changes": listed("POST", "/presence/changes", func(name string) any {
		return map[string]any{"user_ids": []string{name}}
	}),
	"GET /presence/{user_id}":               below("GET", "", ""),
	"GET /presence/{user_id}/history":       below("GET", "/history", ""),
	"GET /presence/{user_id}/export":        below("GET", "/export", ""),
	"GET /presence/{user_id}/visibility":    below("GET", "/visibility", ""),
	"GET /presence/{user_id}/followers":     below("GET", "/followers", ""),
	"PUT /presence/{user_id}/visibility":    below("PUT", "/visibility", `{"visibility":"nobody"}`),
	"GET /presence/{user_id}/audience":      below("GET", "/audience", ""),
	"PUT /presence/{user_id}/audience":      below("PUT", "/audience", `{"base":"nobody","last_seen":"never"}`),
	"GET /presence/{user_id}/audience/deny": below("GET", "/audience/deny", ""),
	"POST /presence/{user_id}/audience/deny": slices.Concat(below("POST", "/audience/deny", `{"add":["mallory"]}`),
		[]attempt{func(name string, tenant *string) request {
			return request{"POST", "/presence/users/mallory/audience/deny" + query(tenant), asJSON(map[string]any{"add": []string{name}}), ""}
		}}),
	"GET /presence/{user_id}/override":    below("GET", "/override", ""),
	"PUT /presence/{user_id}/override":    below("PUT", "/override", `{"state":"invisible"}`),
	"DELETE /presence/{user_id}/override": below("DELETE", "/override", ""),
	"POST /presence/followers": listed("POST", "/presence/followers", func(name string) any {
		return map[string]any{"add": []any{map[string]any{"user_id": name, "followers": []string{"mallory"}}}}
	}),
	"PUT /presence/{user_id}/followers/{follower_id}": slices.Concat(
		below("PUT", "/followers/mallory", ""), below("PUT", "/followers/bob", "")),
	"DELETE /presence/{user_id}/followers/{follower_id}": below("DELETE", "/followers/mallory", ""),
	"DELETE /presence/{user_id}":                         below("DELETE", "", ""),
	"GET /console/api/me":                                console("me"),
	"GET /console/api/overview":                          console("overview"),
	"GET /console/api/overview/stream":                   nil, // TestNoFeedOfTheConsoleShowsChangesOfAnotherTenant
	"GET /console/api/users": {func(name string, tenant *string) request {
		return request{"GET", "/console/api/users" + query(tenant, "q", name), "", ""}
	}},
	"GET /console/api/feed":    nil, // as well
	"GET /console/api/explain": nil, // TestExplainTellsAnAdministratorOfATenantNothingOfOtherTenantsChanges
	"POST /console/api/whatif": {func(_ string, tenant *string) request {
		return request{"POST", "/console/api/whatif" + query(tenant), `{"minutes":1}`, ""}
	}},
	"GET /openapi.yaml":  nil, // says nothing of users
	"GET /asyncapi.yaml": nil,
}

// console makes requests of the console that name no user.
func console(endpoint string, more ...string) []attempt {
	return []attempt{func(_ string, tenant *string) request {
		return request{"GET", "/console/api/" + endpoint + query(tenant, more...), "", ""}
	}}
}

// beatsWithTenants names the tenant in the beat.
func beatsWithTenants(name string, tenant *string) request {
	beat := map[string]any{"user_id": name, "device_id": "d", "bye": true}
	if tenant != nil {
		beat["tenant"] = *tenant
	}
	return request{"POST", "/presence/heartbeats", asJSON(map[string]any{"beats": []any{beat}}), ""}
}

func beatsInProtobuf(name string, tenant *string) request {
	beat := &pb.Beat{Name: name, Device: "d", Bye: true}
	if tenant != nil {
		beat.Tenant = *tenant
	}
	body, err := proto.Marshal(&pb.HeartbeatsRequest{Beats: []*pb.Beat{beat}})
	if err != nil { // NUL and other bytes can be encoded; what is not UTF-8 cannot
		body = []byte(name)
	}
	return request{"POST", "/presence/heartbeats", string(body), "application/x-protobuf"}
}

func TestNoEndpointTellsATenantOfTheUsersOfAnother(t *testing.T) {
	t.Parallel()
	h := newTenants(t)
	h.covers()
	before := h.seenByAcme()
	h.showsAcme()
	internal := h.users.ID("acme", victim).String()
	acme, nobodys, evil := "acme", "acmx", "evil"
	// Reads first: writes of evil's own users change what evil reads.
	var reads, writes []string
	for endpoint := range attempts {
		if strings.HasPrefix(endpoint, "GET") {
			reads = append(reads, endpoint)
		} else {
			writes = append(writes, endpoint)
		}
	}
	slices.SortFunc(writes, func(a, b string) int { // erasures last
		return cmp.Or(cmp.Compare(strings.Count(a, "DELETE"), strings.Count(b, "DELETE")), strings.Compare(a, b))
	})
	for _, endpoint := range slices.Concat(reads, writes) {
		for who, token := range h.callers {
			for i, try := range attempts[endpoint] {
				what := fmt.Sprintf("%s (%d) by %s", endpoint, i, who)
				h.alike(what, token, try(victim, nil), try(absent, nil), victim, absent)
				h.alike(what+" with its tenant", token, try(victim, &evil), try(absent, &evil), victim, absent)
				h.alike(what+" by an internal id", token, try(internal, nil), try(other(internal), nil), internal, other(internal))
				h.refused(what+" with a forged tenant", token, try(victim, &acme), try(victim, &nobodys))
				for _, name := range []string{"acme\x00" + victim, "acme/" + victim, "../acme/" + victim, "%2e%2e%2facme%2f" + victim,
					strings.Repeat("z", schemas.MaxName+1), strings.Repeat("z", 5000), "\xff" + victim} {
					h.says(what+" by another spelling", token, try(name, nil))
				}
			}
		}
	}
	for _, forged := range []string{"?tenant=evil&tenant=acme", "?tenant=acme&tenant=evil", "?Tenant=acme", "?tenant=evil%00acme", "?tenant=%61cme", "?tenant=evil;tenant=acme"} {
		for who, token := range h.callers {
			h.says("tenant "+forged+" by "+who, token, request{"GET", "/presence/users/" + victim + forged, "", ""})
			h.says("tenant "+forged+" by "+who, token, request{"DELETE", "/presence/users/" + victim + forged, "", ""})
		}
	}
	for who, token := range h.callers {
		if status, answer := h.tried(token, request{"GET", "/presence/count", "", ""}); status == http.StatusOK && !strings.Contains(answer, `"online":0,"away":0`) {
			t.Errorf("%s counts users of other tenants: %s", who, answer)
		}
	}
	if after := h.seenByAcme(); after != before {
		t.Errorf("acme sees\n%s\nafter the attack, and before\n%s", after, before)
	}
	_, metrics := h.tried(h.root, request{"GET", "http://" + h.Admin + "/metrics", "", ""})
	for _, place := range map[string]string{"metrics": metrics, "logs": h.Err.String()} {
		for _, secret := range []string{victim, internal} {
			if at := strings.Index(place, secret); at >= 0 {
				t.Errorf("a metric or the log names a user of acme: %s", place[max(0, at-200):at+100])
			}
		}
	}
}

// other is another id of the same length.
func other(id string) string { return id[:len(id)-1] + string('0'+(id[len(id)-1]-'0'+1)%10) }

func newTenants(t *testing.T) *tenants {
	t.Helper()
	h := &tenants{Dev: newGuardedHouse(t, "--ids", "text", "--policy=online_ttl=5m", "--limit-requests", "0", "--limit-connects", "0"), callers: map[string]string{}}
	h.Up()
	text := must.Get(os.ReadFile(filepath.Join(h.Dir, app.IdentityFile)))(t)
	key := must.Get(identity.ParseKey(string(text)))(t)
	h.users = identity.Named(key)
	h.root = issued(t, auth.Caller{Gateway: "root", AnyTenant: true, Scopes: []string{auth.Admin}})
	both := []string{auth.Beat, auth.Read}
	for who, caller := range map[string]auth.Caller{
		"a user of evil":               {Name: schemas.Name{Text: "mallory"}, Tenant: "evil", Scopes: both},
		"a gateway of evil":            {Gateway: "gw", Tenant: "evil", Scopes: both},
		"an administrator of evil":     {Gateway: "gw-2", Tenant: "evil", Scopes: []string{auth.Admin}},
		"an observer of evil":          {Gateway: "gw-3", Tenant: "evil", Scopes: []string{auth.Observe}},
		"a user who is called as acme": {Name: schemas.Name{Text: "acme"}, Tenant: "evil", Scopes: both},
	} {
		h.callers[who] = issued(t, caller)
	}
	h.beat("acme", victim, false)
	testkit.Until(t, "acme's user is online", 20*time.Second, func() bool { return strings.Contains(h.seenByAcme(), `"state":"online"`) })
	follow := request{"PUT", "/presence/users/" + victim + "/followers/bob?tenant=acme", "", ""}
	if status, answer := h.tried(h.root, follow); status != http.StatusNoContent {
		t.Fatalf("a follower is answered %d %s", status, answer)
	}
	return h
}

func (h *tenants) beat(tenant, name string, bye bool) {
	h.Helper()
	body := asJSON(map[string]any{"beats": []any{map[string]any{"tenant": tenant, "user_id": name, "device_id": "phone", "bye": bye}}})
	if status, answer := h.tried(h.root, request{"POST", "/presence/heartbeats", body, ""}); status != http.StatusAccepted {
		h.Errorf("a beat of %s of %s is answered %d %s", name, tenant, status, answer)
	}
}

// seenByAcme is all that an administrator sees of the victim.
func (h *tenants) seenByAcme() string {
	h.Helper()
	var all []string
	for _, rest := range []string{"", "/history", "/visibility", "/audience", "/audience/deny", "/followers"} {
		_, answer := h.tried(h.root, request{"GET", "/presence/users/" + victim + rest + "?tenant=acme", "", ""})
		all = append(all, answer)
	}
	return strings.Join(all, "\n")
}

// covers checks that attempts has the endpoints of openapi.yaml and no others.
func (h *tenants) covers() {
	h.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "schemas", "openapi.yaml")))(h.T)
	var document struct {
		Paths map[string]map[string]any
	}
	must.Do(h.T, yaml.Unmarshal(text, &document))
	found := map[string]bool{}
	for path, methods := range document.Paths {
		for method := range methods {
			endpoint := strings.ToUpper(method) + " " + path
			if found[endpoint] = true; slices.Contains([]string{"get", "put", "post", "delete", "patch"}, method) {
				if _, tried := attempts[endpoint]; !tried {
					h.Errorf("%s is in openapi.yaml, and this test does not attack it", endpoint)
				}
			}
		}
	}
	for endpoint := range attempts {
		if !found[endpoint] {
			h.Errorf("%s is attacked, and is not in openapi.yaml", endpoint)
		}
	}
}

// alike checks that two requests are answered alike but for the names and what differs from request to request.
func (h *tenants) alike(what, token string, a, b request, nameA, nameB string) {
	h.Helper()
	statusA, answerA := h.tried(token, a)
	statusB, answerB := h.tried(token, b)
	if answerA, answerB = masked(answerA, nameA), masked(answerB, nameB); statusA != statusB || answerA != answerB {
		h.Errorf("%s: a user of another tenant is answered\n%d %s\nand nobody\n%d %s", what, statusA, answerA, statusB, answerB)
	}
}

// showsAcme checks that the reads that evil tries would show the victim to one who may see it.
func (h *tenants) showsAcme() {
	h.Helper()
	for _, endpoint := range []string{"GET /presence/batch", "GET /presence/push", "POST /presence/batch",
		"POST /presence/changes", "GET /presence/{user_id}", "GET /presence/{user_id}/history", "GET /presence/{user_id}/export", "GET /presence/{user_id}/followers"} {
		for _, try := range attempts[endpoint] {
			_, a := h.tried(h.root, try(victim, new("acme")))
			_, b := h.tried(h.root, try(absent, new("acme")))
			if masked(a, victim) == masked(b, absent) {
				h.Errorf("%s shows an administrator nothing of a user: %s", endpoint, a)
			}
		}
	}
}

// refused checks that a tenant that exists is refused as one that does not.
func (h *tenants) refused(what, token string, a, b request) {
	h.Helper()
	statusA, answerA := h.tried(token, a)
	statusB, answerB := h.tried(token, b)
	if statusA < 400 || statusA > 499 || statusA != statusB || strings.ReplaceAll(answerA, "acme", "") != strings.ReplaceAll(answerB, "acmx", "") {
		h.Errorf("%s: tenant acme is answered\n%d %s\nand a tenant that does not exist\n%d %s", what, statusA, answerA, statusB, answerB)
	}
}

// says checks that an answer is no failure and has nothing of the victim's presence.
func (h *tenants) says(what, token string, r request) {
	h.Helper()
	status, answer := h.tried(token, r)
	shows := func(what string) bool { return strings.Contains(answer, what) }
	if status >= 500 || slices.ContainsFunc([]string{`:"online"`, `:"hold"`, "bob"}, shows) {
		h.Errorf("%s: %.300q is answered %d %.500s", what, r.path, status, answer)
	}
}

// changing is what differs between two answers at different times: instants, cursors, numbers of events.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\d(T[0-9:.]+Z)?|"(cursor|version|event_id)":"[^"]*"|"\d{13,}"`)

func masked(answer, name string) string {
	return changing.ReplaceAllString(strings.ReplaceAll(answer, name, "NAME"), "*")
}

func (h *tenants) tried(token string, r request) (int, string) {
	h.Helper()
	address := r.path
	if !strings.HasPrefix(address, "http://") {
		address = "http://" + h.Listen + address
	}
	req := must.Get(http.NewRequest(r.method, address, bytes.NewReader([]byte(r.body))))(h.T)
	req.Header.Set("Authorization", "Bearer "+token)
	if r.body != "" {
		req.Header.Set("Content-Type", cmp.Or(r.kind, "application/json"))
	}
	answer := must.Get(h.Client.Do(req))(h.T)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(h.T)
	return answer.StatusCode, string(text)
}
