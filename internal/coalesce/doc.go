// Package coalesce decides what one gateway sends to one partition, and when.
//
// A Queue holds the newest report of each device. A report is in one of four places:
//
//	             urgent                    Seal
//	Add ──┬──────────────▶ ready ───────────────▶ in flight ──Settle(true)──▶ removed
//	      │                  ▲                        │
//	      └─▶ waiting ─Flush─┘                        │
//	             ▲                                    │
//	             └──────────────Settle(false)─────────┘
//	                      (unless a newer one came)
//
// A device has at most one report in flight: a newer one waits for the answer. So the reports of a
// device are in the log in the order in which they came in, whatever fails, and an outage leaves at
// most two reports per device.
//
// With --ids text the first report of a device names its user, and so does the next one after a flush
// that failed, a bye, a silence, an erasure of the user, or five minutes. A queue remembers a bounded number of
// erased users: of more in five minutes, it lets all its devices name their users once.
//
// A device whose connection is open reports only what changes: that it is in use or idle, its bye, its loss. Its report
// is not removed, but told again: after a gap in the frames, with the next beat after an erasure of its user, and every 30
// to 45 minutes.
//
// The package is pure: time is an argument, and there is no goroutine and no lock.
package coalesce
