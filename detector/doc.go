// Package detector decides who is here and publishes every change.
//
// # Flow
//
//	[presence.heartbeats] ──▶ Partition ──▶ [presence.transitions]
//	                             │    └───▶ [presence.status] (compacted)
//	                             └────────▶ [presence.heartbeats] (beats that had landed in a wrong partition)
//
// A Partition is what the Kafka loop runs for every partition it owns: it decodes
// a record, lets the pure state machine (package liveness) decide, and puts what
// follows into the outbox, which the loop commits together with the record's
// offset in one transaction.
//
// # States of a partition
//
// Restoring: the machine is rebuilt from the committed offset's metadata, the last
// stretch of heartbeats and the status topic, and nothing is published. Running:
// records are handled in order. There is no way back: after an aborted transaction
// or a lost partition the Partition is thrown away and another is made.
//
// # Failure
//
// A record that cannot be understood is set aside with its reason, and the
// partition goes on. When the log was cut or made anew, a new log epoch begins, so
// that versions never repeat. When retention has overtaken a stopped detector,
// users whose heartbeats are gone count as heard at the last committed moment:
// unknown is not offline.
package detector
