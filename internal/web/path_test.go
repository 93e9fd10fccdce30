package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/web"
)

// endpoints answer with their pattern and the user.
func endpoints() http.Handler {
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"GET /presence/{user_id}", "GET /presence/{user_id}/history", "GET /presence/batch", "GET /presence/graph/{user_id}/followers",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.TrimPrefix(pattern, "GET /presence/")+" "+web.UserOf(r))
		})
	}
	return web.Alias(mux)
}

func get(t *testing.T, path string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	endpoints().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if answer.Code != http.StatusOK {
		return http.StatusText(answer.Code)
	}
	return answer.Body.String()
}

func TestAUserMayBeCalledAsAnEndpointIs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/presence/7":                         "{user_id} 7",
		"/presence/users/7":                   "{user_id} 7",
		"/presence/users/7/history?limit=2":   "{user_id}/history 7",
		"/presence/batch":                     "batch ",
		"/presence/users/batch":               "{user_id} batch",
		"/presence/users/batch/history":       "{user_id}/history batch",
		"/presence/users/history":             "{user_id} history",
		"/presence/users/users/history":       "{user_id}/history users",
		"/presence/users":                     "{user_id} users",
		"/presence/users/-":                   "{user_id} -",
		"/presence/-":                         "{user_id} -",
		"/presence/users/a%2Fb":               "{user_id} a/b",
		"/presence/users/a%2Fhistory/history": "{user_id}/history a/history",
		"/presence/users/%2e%2e/history":      "{user_id}/history ..",
		"/presence/users/../history":          "{user_id}/history ..",
		"/presence/users/a%252Fb":             "{user_id} a%2Fb",
		"/presence/users/@a:b.c":              "{user_id} @a:b.c",
		"/presence/users/%C3%A9%20%3F":        "{user_id} é ?",
		"/presence/%40a:b.c/history":          "{user_id}/history @a:b.c",
		"/presence/users/":                    "Not Found",
		"/presence/users/7/nothing":           "Not Found",
		"/presence/graph/7/followers":         "graph/{user_id}/followers 7",
		"/presence/users/7/":                  "Not Found",
	} {
		if got := get(t, path); got != want {
			t.Errorf("%s reaches %q, want %q", path, got, want)
		}
	}
}

func TestAPathIsShownAsTheCallerWroteIt(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/presence/users/a/b/history", "/presence/users/a%2Fb", "/presence/7/nothing", "/presence/users"} {
		var shown string
		handler := web.Alias(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = web.PathOf(r) }))
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if shown != path {
			t.Errorf("%s is shown as %s", path, shown)
		}
	}
}

func FuzzAliasReachesOneUser(f *testing.F) {
	for _, name := range []string{"7", "batch", "a/b", "..", "é ?", "%2F", "#"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" {
			return
		}
		var escaped strings.Builder
		for _, b := range []byte(name) {
			const hex = "0123456789ABCDEF"
			escaped.WriteString("%" + string(hex[b>>4]) + string(hex[b&15]))
		}
		if got := get(t, "/presence/users/"+escaped.String()+"/history"); got != "{user_id}/history "+name {
			t.Errorf("%q reaches %q", name, got)
		}
	})
}
