// Package tracing begins spans where package otlp exports them, and does nothing
// elsewhere. It has no dependency, so that the public client, which uses the same consumer,
// brings none along.
package tracing

import (
	"context"
	"sync/atomic"
)

// Batch is some records of one topic that are worked on together.
type Batch struct {
	What, Topic, Group string
	Partition          int32 // negative: several
	Records            int
}

// Begin begins a span of a batch; end ends it, with the error if there was one.
type Begin = func(ctx context.Context, b Batch) (within context.Context, end func(error))

var begin atomic.Pointer[Begin]

// Export has b begin all spans from now on; nil ends that.
func Export(b Begin) {
	if b == nil {
		begin.Store(nil)
		return
	}
	begin.Store(&b)
}

// Span begins a span of a batch. Any goroutine may call it.
func Span(ctx context.Context, b Batch) (within context.Context, end func(error)) {
	if begin := begin.Load(); begin != nil {
		return (*begin)(ctx, b)
	}
	return ctx, noEnd
}

func noEnd(error) {}
