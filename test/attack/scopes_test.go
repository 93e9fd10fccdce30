//go:build unix

package attack_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// operation is one of openapi.yaml.
type operation struct{ method, path, scope string }

// operations are those of openapi.yaml that need a token, with the scope that they state.
func operations(t *testing.T) (all []operation) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "schemas", "openapi.yaml")))(t)
	var document struct {
		Paths map[string]struct {
			Get, Put, Post, Delete, Patch *struct{ Security []map[string][]string }
			Scope                         string `yaml:"x-scope"`
		}
	}
	must.Do(t, yaml.Unmarshal(text, &document))
	for path, item := range document.Paths {
		if item.Scope != "" {
			all = append(all, operation{http.MethodGet, path, item.Scope})
		}
		for method, said := range map[string]*struct{ Security []map[string][]string }{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete, http.MethodPatch: item.Patch,
		} {
			if said == nil || strings.HasSuffix(path, "api.yaml") {
				continue
			}
			if len(said.Security) != 2 || len(said.Security[1]["bearer"]) != 1 {
				t.Errorf("openapi.yaml does not state the scope of %s %s", method, path)
				continue
			}
			all = append(all, operation{method, path, said.Security[1]["bearer"][0]})
		}
	}
	return all
}

// spellings are the ways to write a path for a user of this name that reach the operation itself.
func (o operation) spellings(name string, known func(path string) bool) (all []string) {
	fill := strings.NewReplacer("{follower_id}", "mallory", "{user_id}", "{}").Replace
	first := fmt.Sprintf("%%%02X", name[0]) + url.PathEscape(name[1:])
	for _, written := range []string{url.PathEscape(name), first} {
		another := known("/presence/"+name) && o.path == "/presence/{user_id}" || written == "users" // which is the other form's
		if !another {
			all = append(all, strings.ReplaceAll(fill(o.path), "{}", written))
		}
		if rest, below := strings.CutPrefix(fill(o.path), "/presence/{}"); below {
			all = append(all, "/presence/users/"+written+rest)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestEveryEndpointAsksForItsScopeWhateverItsUserIsCalled(t *testing.T) {
	t.Parallel()
	h := &tenants{Dev: newGuardedHouse(t, "--ids", "text", "--limit-requests", "0", "--limit-connects", "0")}
	h.Up()
	all := operations(t)
	known := func(path string) bool {
		return slices.ContainsFunc(all, func(o operation) bool { return o.path == path })
	}
	names := []string{"alice", "connect", "connections", "heartbeats", "batch", "stream", "users", "count", "changes", "followers", "history", "visibility", "audience",
		"export", "graph", "-", "a/b", "a/followers/b", "connect/x", "heartbeats/followers"}
	for _, scopes := range [][]string{nil, {auth.Beat}, {auth.Read}, {auth.Beat, auth.Read}, {auth.Observe}, {auth.Admin}, {"presence:beat:followers", "admin"}} {
		for _, caller := range []auth.Caller{{Name: schemas.Name{Text: "mallory"}, Scopes: scopes}, {Gateway: "gw", Scopes: scopes}} {
			token := issued(t, caller)
			for _, o := range all {
				may := caller.May(o.scope)
				if may && strings.Contains(o.path, "/console/api/") {
					continue // streams among them do not end
				}
				for i, name := range names {
					if may && i > 2 {
						break // endpoints that do work take their time
					}
					for _, path := range o.spellings(name, known) {
						status, answer := h.tried(token, request{o.method, path, "", ""})
						refused := status == http.StatusForbidden && strings.Contains(answer, "insufficient_scope")
						if refused == may || status == http.StatusUnauthorized {
							t.Errorf("%s %s (%s) with the scopes %q is answered %d %s", o.method, path, o.scope, scopes, status, answer)
						}
					}
				}
			}
		}
	}
}
