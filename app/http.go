package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tracing/otlp"
	"github.com/stillhere/stillhere/internal/web"
)

// listen adds the HTTP servers. It opens the listeners at once, so that a port in use is
// found before anything runs.
func (b *builder) listen(ctx context.Context) error {
	metrics := newConnectionMetrics(b.registry)
	if b.role.http {
		handler, guard, err := b.clientHandler(ctx)
		if err := b.add(guard, err); err != nil {
			return err
		}
		if err := b.add(newServer(b.base, metrics, serverConfig{
			port: clientPort, address: b.config.Listen, writeTimeout: writeTimeout, maxHeader: b.config.maxHeader(),
			limits: func(c Config) (int, int) { return c.maxConnections(), c.MaxPerAddress },
		}, handler)); err != nil {
			return err
		}
	}
	if b.config.Admin == "" {
		return nil
	}
	return b.add(newAdminServer(b.base, metrics, b.checks, b.kafkaMetrics.Status))
}

// newAdminServer serves health, metrics and, if they are configured, profiles.
func newAdminServer(p base, metrics *connectionMetrics, checks []check, status func() []kafka.GroupStatus) (component, error) {
	at := p.config.AdminServer
	routes := adminRoutes(p.registry, checks, status, at.AdminProfiles)
	return newServer(p, metrics, serverConfig{
		port: adminPort, address: at.Admin, writeTimeout: profileTimeout, maxHeader: minHeader,
		limits: func(Config) (int, int) { return adminConnections, 0 },
	}, allowHosts(at.Admin, at.AllowedHosts, routes))
}

// clientHandler puts the checks of a request before the endpoints that the roles registered.
func (b *builder) clientHandler(ctx context.Context) (http.Handler, component, error) {
	if b.config.ConsoleAtRoot {
		b.mux.HandleFunc("GET /{$}", toConsole)
	}
	handleNotFound(b.mux)
	guarded, guard, err := newGuard(ctx, b.base, b.mux)
	if err != nil {
		return nil, guard, err
	}
	handler := allowOrigins(b.config.AllowedOrigins, otlp.Handler(withDocuments(guarded), b.route))
	if !b.config.Auth.On() {
		handler = allowHosts(b.config.Listen, b.config.AllowedHosts, handler)
	}
	return web.Alias(handler), guard, nil
}

// toConsole leads to the web console, by a relative URL: a proxy may serve this below another path.
func toConsole(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "console/")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// Values of the label port.
const clientPort, adminPort = "client", "admin"

type serverConfig struct {
	port, address string
	limits        func(Config) (most, perAddress int) // of connections
	writeTimeout  time.Duration
	maxHeader     int // bytes
}

// newServer opens a listener and serves handler on it.
func newServer(p base, metrics *connectionMetrics, config serverConfig, handler http.Handler) (component, error) {
	trusted, err := parseProxies(p.config.TrustedProxies)
	if err != nil {
		return component{}, err
	}
	inner, err := listen(p.config.Listener, config.address)
	if err != nil {
		return component{}, err
	}
	most, perAddress := config.limits(p.config)
	l := newBounded(inner, config.port, most, perAddress, metrics, p.log)
	l.proxy = trusted.has
	return component{
		onChange: []func(Config){func(c Config) { l.limit(config.limits(c)) }},
		services: []service{{config.port, servers, serve(l, trustProxies(trusted, l, handler), config, p.log)}},
		closers: []closer{{config.port, func(context.Context) error {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			return nil
		}}},
	}, nil
}

// route names the endpoint of a request for its trace. Sockets and streams are not traced:
// they last for hours.
func (b *builder) route(r *http.Request) string {
	_, pattern := b.mux.Handler(r)
	if pattern == notFoundPattern || strings.HasSuffix(pattern, "/presence/connect") || strings.HasSuffix(pattern, "/presence/stream") {
		return ""
	}
	return pattern
}
