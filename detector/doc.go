// Package detector decides which users are online, away or offline, and publishes every
// change.
//
// # Flow
//
//	[presence.heartbeats] ──▶ Partition ──▶ [presence.transitions]
//	                             │    └───▶ [presence.status] (compacted)
//	                             └────────▶ [presence.heartbeats] (beats from a wrong partition)
//
// The Kafka loop runs one Partition for every partition it owns. A Partition decodes a
// record, lets the pure state machine (package liveness) decide, and puts the results into
// the outbox. The loop commits them together with the record's offset in one transaction.
//
// # States of a partition
//
// Restoring: the machine is rebuilt from the committed offset's metadata, the last stretch
// of heartbeats and the status topic; nothing is published. Running: records are handled
// in order. There is no way back: after an aborted transaction or a lost partition the
// loop drops the Partition and creates another.
//
// # Failure
//
// A record that cannot be decoded goes to the dead-letter topic with the reason, and the
// partition goes on. If the log was cut back or its topic recreated, a new log epoch begins,
// so versions never repeat. If retention has overtaken a stopped detector, users whose
// heartbeats are gone count as heard at the last committed moment: unknown is not offline.
package detector
