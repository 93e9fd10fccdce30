package app

import (
	"net/http"
	"strings"

	"github.com/stillhere/stillhere/internal/auth"
)

// scopes are those that the endpoints ask for. An endpoint below /presence/ or /console/api/ that is not listed asks for
// presence:admin, so that a new one is closed until it is listed. GET /console/api/explain names devices, and is not.
var scopes = map[string]string{
	"POST /presence/heartbeats":              auth.Beat,
	"POST /presence/connections":             auth.Beat,
	"GET /presence/connect":                  auth.Beat,
	"PUT /presence/{user_id}/visibility":     auth.Beat,
	"PUT /presence/{user_id}/audience":       auth.Beat,
	"POST /presence/{user_id}/audience/deny": auth.Beat,
	"PUT /presence/{user_id}/override":       auth.Beat,
	"DELETE /presence/{user_id}/override":    auth.Beat,
	"DELETE /presence/{user_id}":             auth.Beat,
	"GET /presence/stream":                   auth.Read,
	"GET /presence/batch":                    auth.Read,
	"POST /presence/batch":                   auth.Read,
	"GET /presence/count":                    auth.Read,
	"GET /presence/push":                     auth.Read,
	"GET /presence/changes":                  auth.Read,
	"POST /presence/changes":                 auth.Read,
	"GET /presence/{user_id}":                auth.Read,
	"GET /presence/{user_id}/history":        auth.Read,
	"GET /presence/{user_id}/visibility":     auth.Read,
	"GET /presence/{user_id}/audience":       auth.Read,
	"GET /presence/{user_id}/audience/deny":  auth.Read,
	"GET /presence/{user_id}/override":       auth.Read,
	"GET /presence/{user_id}/export":         auth.Read,

	"GET /console/api/me":              auth.Observe,
	"GET /console/api/overview":        auth.Observe,
	"GET /console/api/overview/stream": auth.Observe,
	"GET /console/api/users":           auth.Observe,
	"GET /console/api/feed":            auth.Observe,
	"POST /console/api/whatif":         auth.Observe,
}

// needOf says what the endpoint that mux chooses for a request asks for. The text of the path decides nothing: a user may be
// called as an endpoint is, and any byte may be escaped.
func needOf(mux *http.ServeMux) func(*http.Request) auth.Need {
	return func(r *http.Request) auth.Need {
		handler, pattern := mux.Handler(r)
		if scope, listed := scopes[pattern]; listed {
			return auth.Need{Scope: scope, Connects: pattern == "GET /presence/connect" || pattern == "GET /presence/stream"}
		}
		_, path, _ := strings.Cut(pattern, " ")
		_, none := handler.(notFound)
		if none {
			path = r.URL.Path
		}
		switch {
		case !strings.HasPrefix(path, "/presence/") && !strings.HasPrefix(path, "/console/api/"):
			return auth.Need{Public: true}
		case none:
			return auth.Need{}
		}
		return auth.Need{Scope: auth.Admin}
	}
}
