package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// shutdownTimeout bounds how long open requests may take to end.
const shutdownTimeout = 15 * time.Second

// listen takes an address, so that a port in use is found before anything else
// starts. open stands for net.Listen when it is nil.
func listen(open func(network, address string) (net.Listener, error), address string) (net.Listener, error) {
	if open == nil {
		open = net.Listen
	}
	l, err := open("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: the port is in use; stop what holds it or choose another address", address)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// validateListen refuses non-loopback addresses without authentication.
func validateListen(address string, allowed bool) error {
	if _, ok := splitHost(address); !ok {
		return fmt.Errorf("listen: %q must be host:port, e.g. 127.0.0.1:8080", address)
	}
	if onLoopback(address) || allowed {
		return nil
	}
	return fmt.Errorf("listen: %s is reachable from other machines, and no authentication is configured; "+
		"set --auth-secret-file or --auth-jwks, or put a proxy that authenticates in front and set --allow-unauthenticated, or listen on 127.0.0.1", address)
}

// readTimeout bounds the arrival of a request with its body, and how long a client may
// leave the answer closeUnread. Neither holds for connections that were taken over, which
// WebSockets and streams are.
const readTimeout, writeTimeout = 15 * time.Second, time.Minute

// profileTimeout is writeTimeout of the admin port, whose profiles take as long as they
// are asked to.
const profileTimeout = 10 * time.Minute

// serve runs an HTTP server on l until ctx ends.
func serve(l net.Listener, handler http.Handler, config serverConfig, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		server := &http.Server{
			Handler:           withSafeHeaders(closeUnread(handler)),
			ConnContext:       withConn,
			ConnState:         trackState,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       readTimeout,
			WriteTimeout:      config.writeTimeout,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    config.maxHeader,
			// "OPTIONS *" is for the handlers as well; net/http would wait for its body.
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := server.Shutdown(grace)
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			return errors.Join(err, served)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("some requests did not end within %s", shutdownTimeout)
		}
		return err
	}
}
