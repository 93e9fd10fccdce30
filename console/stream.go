package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/web"
)

const (
	// writeTimeout is how long the client of a stream may take to receive what is sent.
	writeTimeout = 15 * time.Second
	// keepAlive is the longest time in which nothing is sent, so that proxies keep the connection.
	keepAlive = 10 * time.Second
)

// sender sends the events of one stream. One goroutine uses it.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// send sends an event with a value as JSON. An error means that the client has left, or does not read.
func (s *sender) send(event string, value any) error {
	if err := s.put(event, value); err != nil {
		return err
	}
	return s.flush()
}

// put is send without flush.
func (s *sender) put(event string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.write(web.AppendEvent(nil, event, "", text))
}

// idle sends a comment.
func (s *sender) idle() error {
	if err := s.write(web.AppendEvent(nil, "", "", nil)); err != nil {
		return err
	}
	return s.flush()
}

func (s *sender) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := s.w.Write(text)
	return err
}

func (s *sender) flush() error { return s.control.Flush() }

// streaming makes an endpoint of a function that sends events until ctx ends, which it does when the
// client leaves, its token expires or the process stops. prepare checks the request before the answer
// begins.
func (s *Server) streaming(prepare func(r *http.Request) (func(ctx context.Context, to *sender) error, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run, err := prepare(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		leave, err := s.admit(r)
		if err != nil {
			w.Header().Set("Retry-After", "5")
			s.refuse(w, r, err)
			return
		}
		defer leave()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ends, cancel)()
		if c := ingest.CallerOf(ctx); c != nil && !c.Until.IsZero() {
			var end context.CancelFunc
			ctx, end = context.WithDeadline(ctx, c.Until)
			defer end()
		}
		web.StartEvents(w.Header())
		if r.Method == http.MethodHead {
			return
		}
		to := &sender{w, http.NewResponseController(w)}
		// Else the end of the time for reading the request would end the stream.
		if err := to.control.SetReadDeadline(time.Time{}); err != nil {
			s.refuse(w, r, err)
			return
		}
		if to.idle() != nil {
			return
		}
		if err := run(ctx, to); err != nil && ctx.Err() == nil {
			status, shown := statusOf(err)
			s.Log.WarnContext(ctx, "a stream of the console ended", "path", r.URL.Path, "error", err)
			_ = to.send("error", map[string]any{"error": map[string]any{"status": status, "message": shown.Error()}})
		}
	})
}

// admit counts a stream. leave ends that.
func (s *Server) admit(r *http.Request) (leave func(), err error) {
	holder := holderOf(ingest.CallerOf(r.Context()))
	refuse := func(reason string) error {
		return web.Refuse(http.StatusTooManyRequests, web.TooMany, "", reason)
	}
	if !s.each.Take(holder) {
		return nil, refuse(fmt.Sprintf("this process serves %d streams of the console to you already", maxStreamsEach))
	}
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams; s.each.Give(holder) }, nil
	default:
		s.each.Give(holder)
		return nil, refuse(fmt.Sprintf("this process serves %d streams of the console already", maxStreams))
	}
}

// holderOf is whose streams are counted together: those of a tenant, else of a gateway or user; empty: not known.
func holderOf(c *ingest.Caller) string {
	switch {
	case c == nil:
		return ""
	case c.Bound:
		return "tenant " + strings.Join(append(slices.Clone(c.Tenants), c.Tenant), ",")
	case c.Gateway != "":
		return "gateway " + string(c.Gateway)
	}
	return "user " + c.User.String()
}
