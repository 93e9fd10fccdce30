package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stillhere/stillhere/app/internal/page"
	"github.com/stillhere/stillhere/internal/tracing"
)

// openDoors adds the HTTP servers. Their listeners are taken here, so that a port
// in use is found before anything runs.
func (h *house) openDoors(ctx context.Context, doorsOpen bool) error {
	metrics := newConnectionMetrics(h.registry)
	add := func(name, address string, handler http.Handler, most, each int, timeout time.Duration) error {
		inner, err := listen(h.config.Listener, address)
		if err != nil {
			return err
		}
		trusted, err := parseProxies(h.config.TrustedProxies)
		if err != nil {
			return errors.Join(err, inner.Close())
		}
		l := newBounded(inner, name, most, each, metrics, h.log)
		l.proxy = trusted.has
		handler = behindProxies(trusted, l, handler)
		h.closeLater(name, func(context.Context) error {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
		h.service(name, doors, serve(l, handler, timeout, h.log))
		return nil
	}
	if doorsOpen {
		if h.config.Page {
			page.Routes(h.mux)
		}
		answerElsewhere(h.mux)
		guarded, err := h.guarded(ctx, h.mux)
		if err != nil {
			return err
		}
		handler := sharedWith(h.config.AllowedOrigins, tracing.Doors(withDocuments(guarded), h.route))
		if !h.config.Auth.On() {
			handler = onlyHosts(h.config.Listen, h.config.AllowedHosts, handler)
		}
		if err := add("doors", h.config.Listen, handler, h.config.mostConnections(), h.config.MaxPerAddress, writeTimeout); err != nil {
			return err
		}
	}
	if h.config.Admin == "" {
		return nil
	}
	return add("admin", h.config.Admin, onlyHosts(h.config.Admin, h.config.AllowedHosts,
		adminRoutes(h.registry, h.checks, h.streamMetrics.Status, h.config.AdminPort.Profiles)), adminConnections, 0, profileTimeout)
}

// route names the door of a request for its trace. Sockets and streams have none: they
// last for hours.
func (h *house) route(r *http.Request) string {
	_, pattern := h.mux.Handler(r)
	if pattern == elsewhere || strings.HasSuffix(pattern, "/presence/connect") || strings.HasSuffix(pattern, "/presence/stream") {
		return ""
	}
	return pattern
}
