package web

import (
	"net/http"
	"strconv"
	"time"
)

// StartEvents sets the header of an answer of Server-Sent Events (HTML, 9.2).
func StartEvents(header http.Header) {
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
}

// AppendEvent appends an event with data, which has no line break. name and id are left out if they are "". Data of nil
// is a comment, which keeps the connection alive.
func AppendEvent(to []byte, name, id string, data []byte) []byte {
	if data == nil {
		return append(to, ":\n\n"...)
	}
	if name != "" {
		to = append(append(append(to, "event: "...), name...), '\n')
	}
	if id != "" {
		to = append(append(append(to, "id: "...), id...), '\n')
	}
	return append(append(append(to, "data: "...), data...), "\n\n"...)
}

// AppendRetry sets the time after which an EventSource reconnects. It follows a whole event, or none.
func AppendRetry(to []byte, after time.Duration) []byte {
	return append(strconv.AppendInt(append(to, "retry: "...), after.Milliseconds(), 10), "\n\n"...)
}
