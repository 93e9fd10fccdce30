package beat

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Log appends records to Kafka, in the background.
//
// Append hands record over and calls done exactly once: with nil when the
// brokers have it, with an error when that is not known (it may have been
// written all the same). done may run on any goroutine, also on the caller's
// before Append returns; it returns quickly and never blocks.
//
// A record that cannot be written is given up in bounded time, of the order of
// AppendTimeout, and not written later: what it says about ages would no longer
// be true. The end of ctx may shorten that time and need not. When ctx has ended
// before the call, nothing is written. Append may block while the writer's buffer
// is full, at most until ctx ends.
//
// The record's Key and Value belong to the Log until done is called. Append may
// be called from many goroutines.
type Log interface {
	Append(ctx context.Context, record schemas.Outgoing, done func(error))
}
