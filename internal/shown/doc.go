// Package shown tells processes whom they may show: what others than the user may know of a transition
// (shown.go), whom a user denies (denied.go), which users are present, hidden or erased (set.go), and, with --ids text,
// who was erased just now
// (erasures.go):
//
//	DELETE, erase ──▶ [presence.erasures] ──▶ Erasures ──▶ names of these users are written again
//
// A name is written with the first heartbeat of a user and every five minutes. An erasure makes the detector
// forget it, so a user who goes on sending heartbeats would be stored without a name until then. Whoever
// erases users writes them to the topic when Kafka has acknowledged the erasures: a name that is written
// after that comes behind the erasure in the log. The topic keeps records for an hour.
//
// The topic is no part of the erasure. If a record is lost, if a process cannot read it, or if there is no such
// topic, as before an upgrade is complete, names are written again within the five minutes. A process logs once
// that it cannot read the topic, looks again every 10 s, and then goes on where it was; it reads a topic that
// was missing from its start. The record is written about as soon as the erasure is, but a heartbeat
// that leaves in between, in the milliseconds until the processes have read it, has no name: the user's next
// heartbeat has one.
package shown
