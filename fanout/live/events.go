package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// serveEvents is the life of one stream of Server-Sent Events (HTML, 9.2): the same
// messages, each as one unnamed event, for the users named in the query.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	told, err := wantsDeliveries(query)
	var ids []schemas.UserID
	if err == nil && (!told || query.Has("user_ids")) {
		ids, err = parseQuery(query["user_ids"], s.cfg.MaxSubscriptions)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	ctx, abort := context.WithCancel(r.Context())
	defer abort()
	to := http.NewResponseController(w)
	send := func(message []byte) error { return s.writeEvent(w, to, message) }
	// Returning is all that closing can be here; the client comes back by itself.
	fail := func(reason error) {
		label := "write"
		switch {
		case errors.Is(reason, errStopping):
			label = "stopping"
		case errors.Is(reason, errTooSlow):
			label = "too_slow"
		case errors.Is(reason, errUnavailable):
			label = "unavailable"
		case errors.Is(reason, errNotAllowed):
			label = "not_allowed"
		}
		s.metrics.Disconnected.WithLabelValues(label).Inc()
		abort()
	}
	st := &stream{kind: "events"}
	if !s.enter(st) {
		s.refuse(w)
		return
	}
	defer s.leave(st)
	v := s.hub.newViewer(s.viewer(r), send, fail)
	defer v.close()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	if !s.begin(st, v, abort) {
		return
	}
	v.tell(request{kind: greet})
	if told {
		v.tell(request{kind: deliveries, on: true})
	}
	if len(ids) > 0 {
		v.tell(request{kind: subscribe, ids: ids, once: true})
	}
	alive := time.NewTicker(s.cfg.PingInterval)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-alive.C:
			v.ask(request{kind: keepAlive})
		}
	}
}

func (s *Server) writeEvent(w http.ResponseWriter, to *http.ResponseController, message []byte) error {
	// A server without deadlines for writing has the peer's TCP to go by.
	if err := to.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	var err error
	if message == nil {
		_, err = fmt.Fprint(w, ":\n\n")
	} else {
		_, err = fmt.Fprintf(w, "data: %s\n\n", message)
	}
	if err != nil {
		return err
	}
	return to.Flush()
}
