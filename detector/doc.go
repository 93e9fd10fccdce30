// Package detector decides who is online and publishes every change.
//
// # Flow
//
//	[presence.heartbeats] ──▶ Partition ──▶ [presence.transitions]
//	                             │    └───▶ [presence.status] (compacted)
//	                             ├────────▶ [presence.heartbeats] (forwarded misrouted beats)
//	                             └────────▶ [presence.policies] (settings of the policies that transitions name)
//
// The processor (internal/kafka/processor) runs one Partition for every partition that it owns. A
// Partition decodes a record, lets the pure state machine (package liveness) decide, and puts the
// results into the outbox. The processor commits the outbox together with the record's offset in one
// transaction.
//
// # States of a partition
//
// Restoring: the machine is loaded from the snapshot that the commit names, and the records up to the committed offset
// are handled again, muted. Running: records are handled in order. There is no way back: after an aborted transaction or
// a lost partition a new Partition replaces this one.
//
// # Failure
//
// A record that cannot be decoded goes to the dead-letter topic with the reason, and the partition
// goes on. Without a snapshot users are what their statuses say, and whoever is present counts as heard at the last
// commit: unknown is not offline. If the log was truncated or recreated, a new log epoch begins, so that versions never
// repeat.
package detector
