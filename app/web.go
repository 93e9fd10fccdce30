package app

import (
	"net/http"

	"github.com/rs/cors"

	"github.com/stillhere/stillhere/internal/socket"
)

// preflightFor is how long a browser may remember what it was allowed, in seconds.
const preflightFor = 600

// allowOrigins lets pages of other origins use the API from a browser: it answers
// preflight requests and says so in answers (CORS). Without origins browsers keep the
// answers from such pages, which is their default.
func allowOrigins(origins []string, endpoints http.Handler) http.Handler {
	if len(origins) == 0 {
		return endpoints
	}
	return cors.New(cors.Options{
		AllowOriginFunc: func(origin string) bool { return socket.MatchesOrigin(origins, origin) },
		AllowedMethods:  []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete},
		AllowedHeaders:  []string{"Authorization", "Content-Type", "Content-Encoding", "Last-Event-ID"},
		ExposedHeaders:  []string{"Retry-After", "Stale-Since"},
		MaxAge:          preflightFor,
	}).Handler(endpoints)
}
