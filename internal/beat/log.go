package beat

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Appender appends records to Kafka, in the background.
//
// Append takes record over and calls done exactly once: with nil when the brokers have
// acknowledged it, with an error when that is not known (it may have been written all the same).
// done may run on any goroutine, also on the caller's before Append returns; it returns quickly and
// never blocks.
//
// Append gives up a record that it cannot write after about AppendTimeout, and does not write it
// later: the ages in it would be wrong. The end of ctx may shorten that time. If ctx has ended
// before the call, nothing is written. Append may block while the writer's buffer is full, at most
// until ctx ends.
//
// The record's Key and Value belong to the Appender until done is called. Any goroutine may call Append.
type Appender interface {
	Append(ctx context.Context, record schemas.Outgoing, done func(error))
}
