package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// component is what one constructor adds to a process. A constructor that fails returns
// the component with what it had opened by then, so that it is closed.
type component struct {
	services []service
	checks   []check
	closers  []closer
	// routes register HTTP handlers.
	routes []func(*http.ServeMux)
	// onChange are called, one after the other, when another policy comes into force or the
	// configuration is reloaded, with the configuration that follows from it.
	onChange []func(Config)
	// onReload are called before them at a reload. Each returns what puts the settings into force,
	// or why they cannot work; then nothing is changed.
	onReload []func(Config) (commit func(), _ error)
	// onRestart are called with the lossy restarts of partitions; see policy.LossyRestarts.
	onRestart []func(map[int32]schemas.Millis)
}

// closer releases something after all services have stopped.
type closer struct {
	name  string
	close func(context.Context) error
}

// closeTimeout bounds each closer.
const closeTimeout = 10 * time.Second

// with returns c together with what other has.
func (c component) with(other component) component {
	c.services = append(c.services, other.services...)
	c.checks = append(c.checks, other.checks...)
	c.closers = append(c.closers, other.closers...)
	c.routes = append(c.routes, other.routes...)
	c.onChange = append(c.onChange, other.onChange...)
	c.onReload = append(c.onReload, other.onReload...)
	c.onRestart = append(c.onRestart, other.onRestart...)
	return c
}

// close calls the closers, the last one first.
func (c component) close(ctx context.Context) error {
	var faults []error
	for _, closer := range slices.Backward(c.closers) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		if err := closer.close(bounded); err != nil {
			faults = append(faults, fmt.Errorf("closing the %s: %w", closer.name, err))
		}
		cancel()
	}
	return errors.Join(faults...)
}

// closing is a component with nothing but a closer that cannot fail.
func closing(name string, close func()) component {
	return component{closers: []closer{{name, func(context.Context) error { close(); return nil }}}}
}

// loop is a component with a consumer loop and its readiness check, both under name.
func loop(name string, run func(context.Context) error, ready func() error) component {
	return component{
		services: []service{{name, loops, run}},
		checks:   []check{{name: name, ready: func(context.Context) error { return ready() }}},
	}
}
