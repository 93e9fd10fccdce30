package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stage orders the stop of a process: servers first, so that no new input comes in; then
// what holds input that it has not handed on; then the consumer loops.
type stage int

// StopLimit is how long a process takes to stop: servers, buffers and loops one after the other, then what
// they leave open. What kills processes must wait for longer.
const StopLimit = 40 * time.Second

const (
	loops stage = iota
	buffers
	servers
	stages
)

// service is a long-lived part of the process. run returns only when it has stopped. An
// error, or returning before ctx ends, stops the process.
type service struct {
	name  string
	stage stage
	run   func(context.Context) error
}

// runAll runs the services until ctx ends or one of them fails, then stops them stage by
// stage, servers first, and returns when all have stopped.
func runAll(ctx context.Context, services []service) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var waits [stages]sync.WaitGroup
	var stops [stages]context.CancelFunc
	faults := make(chan error, len(services))
	for s := range stages {
		// Shutdown reaches a stage only when it is its turn.
		var stageCtx context.Context
		stageCtx, stops[s] = context.WithCancel(context.WithoutCancel(ctx))
		for _, each := range services {
			if each.stage != s {
				continue
			}
			waits[s].Go(func() {
				err := each.run(stageCtx)
				if stageCtx.Err() == nil && err == nil {
					err = errors.New("ended by itself")
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					err = fmt.Errorf("%s: %w", each.name, err)
					faults <- err
					failed(err)
				}
			})
		}
	}
	<-ctx.Done()
	for s := stages - 1; s >= 0; s-- {
		stops[s]()
		waits[s].Wait()
	}
	close(faults)
	var all []error
	for err := range faults {
		all = append(all, err)
	}
	return errors.Join(all...)
}
