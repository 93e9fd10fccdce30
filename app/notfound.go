package app

import (
	"net/http"
	"strings"

	"github.com/stillhere/stillhere/internal/problem"
	"github.com/stillhere/stillhere/schemas"
)

// notFoundPattern is the pattern of requests for which this process has no endpoint.
const notFoundPattern = "/"

// roleHint helps those who came to another role's address.
const roleHint = "; heartbeats and sockets are taken by the role ingest, reads and streams served by api: see /openapi.yaml"

// handleNotFound registers the not-found handler, which answers in JSON like the endpoints.
// It is called after all endpoints are registered.
func handleNotFound(mux *http.ServeMux) {
	mux.HandleFunc(notFoundPattern, func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range problem.Methods {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != notFoundPattern && pattern != "" {
				allowed = append(allowed, method)
			}
		}
		what := r.Method + " " + r.URL.Path
		if len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			problem.Write(w, http.StatusMethodNotAllowed, &schemas.FieldError{
				Code: "method_not_allowed", Reason: what + " is not served by this process, " + strings.Join(allowed, " and ") + " is" + roleHint,
			})
			return
		}
		problem.Write(w, http.StatusNotFound, &schemas.FieldError{Code: "not_found", Reason: what + " is not served by this process" + roleHint})
	})
}
