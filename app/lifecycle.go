package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// stage orders the stop of a process: doors first, so that nothing new comes in;
// then what holds input that has not been handed on; then the loops behind.
type stage int

const (
	loops stage = iota
	buffers
	doors
	stages
)

// service is a long-lived part of the process. run returns only when it has
// stopped; an error, or returning before it was asked to, stops the process.
type service struct {
	name  string
	stage stage
	run   func(context.Context) error
}

// runAll runs the services until ctx ends or one of them fails, then stops them
// stage by stage, doors first, and returns when all have stopped.
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
		for _, part := range slices.Collect(inStage(services, s)) {
			waits[s].Go(func() {
				err := part.run(stageCtx)
				if stageCtx.Err() == nil && err == nil {
					err = errors.New("ended by itself")
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					err = fmt.Errorf("%s: %w", part.name, err)
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

func inStage(services []service, s stage) func(yield func(service) bool) {
	return func(yield func(service) bool) {
		for _, part := range services {
			if part.stage == s && !yield(part) {
				return
			}
		}
	}
}
