package ingest

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// AllowsOrigin tells whether the page that made the browser send r may use the
// doors: it was served by the same host, or its origin is one of AllowedOrigins,
// or no browser said anything about a page. Presence is changed by requests that
// carry no token when authentication is off, so that without this any web page
// could speak for the person at the keyboard.
func (c *Config) AllowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	if err != nil {
		return false
	}
	if from.Host != "" && strings.EqualFold(from.Host, r.Host) {
		return true
	}
	for _, pattern := range c.AllowedOrigins {
		if ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(origin)); err == nil && ok {
			return true
		}
	}
	return false
}
