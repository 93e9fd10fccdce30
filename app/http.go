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

// listenHTTP adds the HTTP servers. Their listeners are taken here, so that a port
// in use is found before anything runs.
func (b *builder) listenHTTP(ctx context.Context, doorsOpen bool) error {
	metrics := newConnectionMetrics(b.registry)
	add := func(name, address string, handler http.Handler, most, each int, timeout time.Duration) error {
		inner, err := listen(b.config.Listener, address)
		if err != nil {
			return err
		}
		trusted, err := parseProxies(b.config.TrustedProxies)
		if err != nil {
			return errors.Join(err, inner.Close())
		}
		l := newBounded(inner, name, most, each, metrics, b.log)
		l.proxy = trusted.has
		handler = trustProxies(trusted, l, handler)
		b.closeLater(name, func(context.Context) error {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		})
		b.service(name, doors, serve(l, handler, timeout, b.log))
		return nil
	}
	if doorsOpen {
		if b.config.Page {
			page.Routes(b.mux)
		}
		handleNotFound(b.mux)
		authenticate, err := b.authenticate(ctx, b.mux)
		if err != nil {
			return err
		}
		handler := allowOrigins(b.config.AllowedOrigins, tracing.Doors(withDocuments(authenticate), b.route))
		if !b.config.Auth.On() {
			handler = allowHosts(b.config.Listen, b.config.AllowedHosts, handler)
		}
		if err := add("doors", b.config.Listen, handler, b.config.maxConnections(), b.config.MaxPerAddress, writeTimeout); err != nil {
			return err
		}
	}
	if b.config.Admin == "" {
		return nil
	}
	return add("admin", b.config.Admin, allowHosts(b.config.Admin, b.config.AllowedHosts,
		adminRoutes(b.registry, b.checks, b.streamMetrics.Status, b.config.AdminPort.Profiles)), adminConnections, 0, profileTimeout)
}

// route names the door of a request for its trace. Sockets and streams have none: they
// last for hours.
func (b *builder) route(r *http.Request) string {
	_, pattern := b.mux.Handler(r)
	if pattern == notFoundPattern || strings.HasSuffix(pattern, "/presence/connect") || strings.HasSuffix(pattern, "/presence/stream") {
		return ""
	}
	return pattern
}
