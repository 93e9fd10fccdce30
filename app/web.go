package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/rs/cors"

	"github.com/stillhere/stillhere/internal/socket"
)

// preflightFor is how long a browser may remember what it was allowed, in seconds.
const preflightFor = 600

// allowOrigins lets pages of other origins use the API from a browser: it answers
// preflight requests and says so in answers (CORS). Without origins browsers keep the
// answers from such pages, which is their default.
func allowOrigins(origins []string, doors http.Handler) http.Handler {
	if len(origins) == 0 {
		return doors
	}
	return cors.New(cors.Options{
		AllowOriginFunc: func(origin string) bool { return socket.MatchesOrigin(origins, origin) },
		AllowedMethods:  []string{http.MethodGet, http.MethodPost, http.MethodPut},
		AllowedHeaders:  []string{"Authorization", "Content-Type", "Content-Encoding", "Last-Event-ID"},
		ExposedHeaders:  []string{"Retry-After", "Stale-Since"},
		MaxAge:          preflightFor,
	}).Handler(doors)
}

// checkWeb reports everything that is wrong with the settings for browsers, joined.
func (c Config) checkWeb() error {
	var faults []error
	for i, pattern := range c.AllowedOrigins {
		from, err := url.Parse(strings.ReplaceAll(pattern, "*", "1"))
		_, bad := path.Match(pattern, "")
		if err != nil || bad != nil || strings.HasPrefix(pattern, "*") || from.Scheme == "" || from.Host == "" || from.Path != "" {
			faults = append(faults, fmt.Errorf("allowed_origins[%d]: %q must be scheme://host, such as https://chat.example.com or https://*.example.com", i, pattern))
		}
	}
	if _, err := parseProxies(c.TrustedProxies); err != nil {
		faults = append(faults, err)
	}
	if c.MaxPerAddress < 0 {
		faults = append(faults, errors.New("max_connections_per_address: must not be negative"))
	}
	if c.MaxPerUser < 0 {
		faults = append(faults, errors.New("max_connections_per_user: must not be negative"))
	}
	if err := c.checkConnections(); err != nil {
		faults = append(faults, err)
	}
	if c.Fanout.MaxConnections < 1 {
		faults = append(faults, errors.New("max_streams: must be positive"))
	}
	return errors.Join(faults...)
}
