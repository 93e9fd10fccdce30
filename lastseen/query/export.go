package query

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Export writes everything that is held of a user. In text mode the user has a name. It may be slow, and
// writes in pieces.
type Export func(ctx context.Context, user schemas.UserID, name schemas.Name, to io.Writer) error

const (
	// exportsAtOnce bounds the exports of this process: each may hold a connection of the store for as long as
	// its client reads.
	exportsAtOnce = 2
	// exportCharge is how many ids of a batch an export counts as: ten requests.
	exportCharge = 500
	// exportTimeout bounds an export, exportStall the time in which its client reads nothing.
	exportTimeout, exportStall = 10 * time.Minute, 30 * time.Second
	// exportBuffer is how much is collected before it is sent; a fault before that is answered with its status.
	exportBuffer = 64 << 10
)

// SetExport makes the server answer GET /presence/{user_id}/export. Call it before Routes.
func (s *Server) SetExport(export Export) {
	s.export, s.exports = export, make(chan struct{}, exportsAtOnce)
}

// exportEndpoint answers with JSON lines. After a fault in the middle it closes the connection, so that no
// client takes a part for the whole.
func (s *Server) exportEndpoint(route string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		started := time.Now()
		user, name, err := s.mayExport(request)
		if err != nil {
			s.refuse(w, request, route, started, err)
			return
		}
		select {
		case s.exports <- struct{}{}:
			defer func() { <-s.exports }()
		default:
			s.refuse(w, request, route, started, web.RefuseFor(exportStall, http.StatusServiceUnavailable, web.Overloaded, "",
				"too many exports run in this process; try again"))
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), exportTimeout)
		defer cancel()
		to := &exportWriter{ResponseWriter: w, control: http.NewResponseController(w)}
		// The server would otherwise take the end of its time to read a request for a lost client.
		_ = to.control.SetReadDeadline(time.Time{}) // a recorder of a test has none
		lines := bufio.NewWriterSize(to, exportBuffer)
		other, err := s.isStranger(ctx, user, name)
		if err == nil && !other {
			err = s.export(ctx, user, name, lines)
		}
		if err == nil {
			err = lines.Flush()
		}
		switch {
		case err == nil:
			to.begin() // if nothing is held
			s.observe(route, started, strconv.Itoa(http.StatusOK))
		case !to.begun:
			s.refuse(w, request, route, started, err)
		default:
			status := statusClientClosed
			if request.Context().Err() == nil {
				status = strconv.Itoa(http.StatusInternalServerError)
				s.log.WarnContext(ctx, "an export ended early; its connection is closed, so that the client sees that a part is missing",
					"user_id", user, "error", err)
			}
			s.observe(route, started, status)
			panic(http.ErrAbortHandler)
		}
	})
}

// mayExport reads the request, checks that the sender is the user or an administrator, and counts it
// towards the limit of its sender.
func (s *Server) mayExport(request *http.Request) (user schemas.UserID, name schemas.Name, err error) {
	q, err := s.ask(request)
	if err != nil {
		return 0, name, err
	}
	if user, name, err = q.user(request); err != nil {
		return 0, name, err
	}
	if s.access != nil && !s.viewerOf(request).seesHidden(user) {
		return 0, name, notAllowed("export")
	}
	if s.charge == nil {
		return user, name, nil
	}
	wait, most, err := s.charge(request, exportCharge)
	if most > 0 { // the limit of the user has not room for so many at any time
		wait, _, err = s.charge(request, most)
	}
	switch {
	case err != nil:
		return 0, name, err
	case wait > 0:
		return 0, name, web.RefuseFor(wait, http.StatusTooManyRequests, web.TooMany, "user_id",
			"is exported too often: an export counts as ten requests of its sender")
	}
	return user, name, nil
}

// exportWriter sends what is written. A client that reads nothing for exportStall is lost.
type exportWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (w *exportWriter) begin() {
	if !w.begun {
		w.begun = true
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
	}
}

func (w *exportWriter) Write(b []byte) (int, error) {
	w.begin()
	_ = w.control.SetWriteDeadline(time.Now().Add(exportStall)) // a recorder of a test has none
	return w.ResponseWriter.Write(b)
}
