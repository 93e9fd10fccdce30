package web

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"
)

// firstRead is the buffer of a body before any of it has arrived.
const firstRead = 16 << 10 // bytes

// ReadBody reads a body of at most limit bytes, else the error is tooLong. It has to arrive within a time; 0: the
// server's own, and w may be nil.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int, within time.Duration, tooLong error) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return nil, tooLong // unread, which costs the connection
	}
	if within > 0 {
		// A recorder of a test has no deadline, and no slow client.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
		// Otherwise the HTTP server would later take the deadline for a lost client.
		defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }()
	}
	var body bytes.Buffer
	// Memory follows what has arrived, not what was announced.
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, int64(limit)))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, tooLong
	case errors.Is(err, os.ErrDeadlineExceeded):
		late := "did not arrive in time"
		if within > 0 {
			late = "did not arrive in " + within.String()
		}
		return nil, Refuse(http.StatusRequestTimeout, "body_timeout", "body", late)
	case err != nil:
		return nil, Refuse(http.StatusBadRequest, Malformed, "body", "ended before it was complete")
	}
	return body.Bytes(), nil
}

// IsJSON reports whether a media type counts as JSON: those of curl -d and of scripts do.
func IsJSON(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json") || kind == "text/plain" || kind == "application/x-www-form-urlencoded"
}
