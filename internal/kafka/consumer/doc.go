// Package consumer is the at-least-once loop. A Consumer reads a topic, read committed, for a
// Handler: effects first, offsets after.
//
//	poll → the partition's queue → its worker decodes a batch and calls Apply → the offsets are
//	marked and committed every Config.IdleCommitInterval
//
// Every partition has a worker goroutine and a bounded queue; when the queue is full, the client
// does not fetch the partition. An AsyncHandler may return before a batch has taken effect: its
// offsets are committed up to the first record in hand. A PositionedHandler stores the offsets
// itself and is asked where to start. With WatermarksOf, a WatermarkHandler learns every
// Config.WatermarkInterval up to which log time everything has been applied, also when no records
// come.
//
// # Failures
//
//   - Apply fails: it is called again with the same batch, after a pause, until it works. Only its
//     partition waits.
//   - A record cannot be decoded: it goes to the dead-letter topic and the rest of the batch goes on.
//   - The handler's store has lost what it had applied (ResetPosition): the partition restarts from
//     the position that Start returns.
//   - The group revokes partitions: their workers finish the batch in hand within a third of
//     Config.RebalanceTimeout, then the offsets are committed. If partitions are lost, the calls to
//     the handler are cancelled, and the next owner applies the batch again.
//   - The topic was recreated, or another process has the instance name: the session ends and the
//     next one starts from the stored offsets.
//
// When the context of Run ends, the workers finish the batches in hand within Config.StopTimeout,
// and the offsets are committed.
package consumer
