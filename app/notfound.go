package app

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// notFoundPattern is the pattern of requests for which this process has no endpoint.
const notFoundPattern = "/"

// roleHint helps those who came to another role's address.
const roleHint = "; heartbeats and sockets are taken by the role ingest, reads and streams served by api: see /openapi.yaml"

// methods are those that endpoints have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// namedPath finds the paths of openapi.yaml that a pattern with {user_id} matches too.
var namedPath = regexp.MustCompile(`(?m)^  (/presence/[a-z]+):$`)

// notFound answers, in JSON like the endpoints, requests for which mux has nothing else: 405 with
// Allow for a path that has other methods, else 404. mux's own 405 is no JSON, and mux does not
// give it where there is a pattern for all requests.
type notFound struct{ mux *http.ServeMux }

// handleNotFound registers the not-found handler. It is called after all endpoints are registered.
// Services register each method of a path by itself: a pattern without a method would clash with
// those of other services.
func handleNotFound(mux *http.ServeMux) {
	handler := notFound{mux}
	for _, named := range namedPath.FindAllSubmatch(schemas.OpenAPI, -1) {
		for _, method := range methods {
			pattern := method + " " + string(named[1])
			_, found := mux.Handler(&http.Request{Method: method, URL: &url.URL{Path: string(named[1])}})
			if found != pattern && strings.Contains(found, "{") {
				mux.Handle(pattern, handler) // else a user would have this name
			}
		}
	}
	mux.Handle(notFoundPattern, handler)
}

func (n notFound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range methods {
		other := *r
		other.Method = method
		handler, pattern := n.mux.Handler(&other)
		if _, none := handler.(notFound); !none && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	what := r.Method + " " + web.PathOf(r)
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		web.Write(w, http.StatusMethodNotAllowed, &schemas.FieldError{
			Code: "method_not_allowed", Reason: what + " is not served by this process, " + strings.Join(allowed, " and ") + " is" + roleHint,
		})
		return
	}
	web.Write(w, http.StatusNotFound, &schemas.FieldError{Code: "not_found", Reason: what + " is not served by this process" + roleHint})
}
