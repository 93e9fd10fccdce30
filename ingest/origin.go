package ingest

import (
	"net/http"
	"strconv"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/schemas"
)

// CheckOrigin refuses requests from web pages of other sites: the page must come from the same host
// or from one of AllowedOrigins. Requests without an Origin pass. Without authentication any web
// page could otherwise change the presence of the person at the keyboard.
func (c *Config) CheckOrigin(r *http.Request) error {
	if socket.CheckOrigin(r, c.AllowedOrigins) == nil {
		return nil
	}
	return &schemas.FieldError{Code: "forbidden_origin", Reason: "the origin " +
		strconv.Quote(r.Header.Get("Origin")) + " is not allowed"}
}
