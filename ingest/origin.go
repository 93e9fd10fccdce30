package ingest

import (
	"net/http"

	"github.com/stillhere/stillhere/internal/socket"
)

// AllowsOrigin tells whether the page that made the browser send r may use the
// doors: it was served by the same host, or its origin is one of AllowedOrigins,
// or no browser said anything about a page. Presence is changed by requests that
// carry no token when authentication is off, so that without this any web page
// could speak for the person at the keyboard.
func (c *Config) AllowsOrigin(r *http.Request) bool {
	return socket.CheckOrigin(r, c.AllowedOrigins) == nil
}
