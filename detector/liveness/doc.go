// Package liveness decides who is here: a pure state machine over the records of
// one heartbeats partition.
//
// # Flow
//
// The owner of a partition hands every record, in order, to Machine.Apply. The
// record's append time moves the clock; what has become due is published; then
// the record itself is applied: beats, byes, a change of visibility, a gateway's
// sign of life. What is to be published is appended to an Output.
//
//	record ─▶ clock ─▶ evaluate(due limits) ─▶ beats ─▶ Output{transitions, status, misrouted}
//
// One record may silence a million users. Apply stops when the output has the length
// Slice; Continue goes on.
//
// # State
//
// A user costs one entry in a dense array (hot and cold part, 36 bytes), one slot
// of 4 bytes in an extendible hash index, and one timer of 4 bytes in a lazy
// wheel. A repeated beat of a user's only device finds the entry and writes it;
// the timer finds out when it fires. Whoever is more complicated (several
// devices, a gateway that was lost) is decoded into a user, worked on by the
// rules in rules.go and judge.go, and put back.
//
// # Ownership
//
// One goroutine. The package has no clock, context, goroutine, logger or client,
// which a test holds: the same records give the same output on any machine.
//
// # Restart
//
// BeginReplay, then Apply for the last stretch of heartbeats, then BeginAdopt and Adopt for
// every record of the status topic, then EndReplay: the machine is what it was when the
// offset was committed. Checkpoint says where that stretch begins. Where records of that
// stretch are gone, or the commit is, BeginLossy comes first: nothing is re-read, and users
// who are here by their statuses are presumed to have been heard at that moment.
package liveness
