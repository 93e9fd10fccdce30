package main

import (
	"context"
	"os"

	"github.com/stillhere/stillhere/tools/loadtest"
)

// benchCommand measures a pipeline on this machine and on a Kafka of the user's.
type benchCommand struct {
	Pipeline benchPipeline `cmd:"" help:"From a beat to the committed transition and the API's answer."`
	Serve    benchServe    `cmd:"" hidden:"" help:"Run the servers of a bench in this process until standard input ends."`
}

// benchPipeline is the one bench of the program; the others are in bench, for a laboratory.
type benchPipeline struct{ loadtest.Flags }

// Run runs it.
func (c *benchPipeline) Run(ctx context.Context) error {
	return c.Measure(ctx, version, []string{"bench"}, loadtest.Pipeline)
}

// benchServe is what a bench starts in another process.
type benchServe struct{}

// Run serves.
func (benchServe) Run() error { return loadtest.Serve(os.Stdout, os.Stdin) }
