// Package liveness decides who is online: a pure state machine over the records of one heartbeats
// partition.
//
// # Flow
//
// The owner of a partition hands every record, in order, to Machine.Apply. The append time of the
// record advances the clock; the changes that are then due are published; then the record itself is
// applied: beats, byes, a change of visibility, a sign of life of a gateway. Transitions and
// statuses to be written are appended to an Output.
//
//	record ─▶ clock ─▶ evaluate(due limits) ─▶ beats ─▶ Output{transitions, statuses, misrouted}
//
// One record may make a million users silent. Limits change at most MostDue users at it; the others follow at
// the next records.
//
// # State
//
// A user costs one entry in a dense array (a hot and a cold part, 36 bytes), one slot of 4 bytes in
// an extendible hash index, and one timer of 4 bytes in a lazy wheel. A repeated beat of a user's
// only device finds the entry and writes it. The timer finds out when it fires. A user who does not fit
// in an entry (several devices, changes that wait) costs about 220 bytes more; a repeated beat of one of several
// devices writes its report. Anything else is decoded into a user, handled by the rules in rules.go, report.go,
// judge.go and publish.go, and encoded again.
//
// # Ownership
//
// One goroutine owns a Machine. The package has no clock, context, goroutine, logger or client (a
// test enforces it): the same records give the same output on any machine.
//
// # Restart
//
// Capture and CaptureMore write a snapshot while records are applied, and Walk reads it. Without one, BeginLossy,
// AdoptRules, Adopt for every record of the status topic, and EndLossy make users what their statuses say; whoever is
// present counts as heard at that moment.
package liveness
