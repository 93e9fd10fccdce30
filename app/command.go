package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/stillhere/stillhere/internal/kafka"
)

// Command is a process that is not a role and has an admin port, such as a canary.
type Command struct {
	Name     string
	Version  string // of the program, for metrics; empty: not exported
	Registry *prometheus.Registry
	// Run works until ctx ends.
	Run func(ctx context.Context) error
	// Ready is an error while the process cannot do its own job.
	Ready func() error
	AdminServer

	status func() []kafka.GroupStatus      // of what it consumes; nil: nothing
	close  func(ctx context.Context) error // called if Run is not; nil: nothing
	beside []service                       // that run with it
}

// RunCommand runs a command and its admin port until ctx ends.
func RunCommand(ctx context.Context, c Command, log *slog.Logger) error {
	if c.close == nil {
		c.close = func(context.Context) error { return nil }
	}
	if err := c.validate(); err != nil {
		return errors.Join(err, c.close(ctx))
	}
	services := append([]service{{c.Name, loops, c.Run}}, c.beside...)
	if c.Version != "" {
		c.Registry.MustRegister(buildInfo(c.Version), collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if c.Admin != "" {
		p := base{log: log, registry: c.Registry}
		p.config.AdminServer = c.AdminServer
		if c.status == nil {
			c.status = func() []kafka.GroupStatus { return nil }
		}
		ready := check{name: c.Name, ready: func(context.Context) error { return c.Ready() }}
		server, err := newAdminServer(p, newConnectionMetrics(c.Registry), []check{ready}, c.status)
		if err != nil {
			return errors.Join(err, c.close(ctx))
		}
		services = append(services, server.services...)
	}
	return runAll(ctx, services)
}
