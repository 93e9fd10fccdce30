// Package expand turns transitions into deliveries to followers.
//
//	presence.transitions ──▶ Planner ──up to high_follower───────────────▶ presence.deliveries, first half
//	                            └─SPLIT, STOP─▶ presence.fanout ──▶ Worker ──▶ presence.deliveries, second half
//	                                                   ▲───RANGE───────┘
//	presence.status ──▶ online.Set ┄┄┄ present users, hidden users ┄┄┄▶ Planner, Worker
//	presence.fanout ──▶ Newest ┄┄┄┄┄┄ superseded jobs ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▶ Worker
//
// Planner and Worker are tasks of the exactly-once processor. It commits what they write together
// with the offsets of what they read, so every transition leads to its delivery records exactly
// once, however often a process is killed.
//
// # An expansion
//
// The planner takes the newest transition of each user in a batch. It expands a user at most once
// in Config.Gap and delays the newest of the changes in between. The committed offset stays at the
// first delayed transition, and the checkpoint says which of the records after it were planned; so
// a restart loses none and doubles none. Hides are never delayed.
//
// The planner expands a user with few followers at once. For a user with many it writes a SPLIT
// job. The worker that reads the job cuts the followers into ranges and writes a RANGE job for
// each, spread over all partitions of presence.fanout. So all workers share one celebrity, and the
// cutting, which takes a second for ten million followers, delays nobody else.
//
// # Order
//
// Ranges stay the same while they are in use. The jobs of one range go to one partition, in the
// order of their versions. The user's and the follower's id alone choose the partition of a
// delivery record, whatever the ranges.
//
// A job is superseded when presence.fanout holds a job of the same user with a greater version.
// Workers check this before each page and before they write their result. A STOP job does nothing
// but supersede. Workers begin only when they have read all of presence.fanout, so a job that was
// overtaken during an outage is superseded, not late.
//
// A change of the list of denied viewers goes to the viewers whom it names, directly or by jobs of the same ranges. It
// supersedes nothing (denied.go).
//
// The planner delivers nothing about hidden users, and writes a STOP job. Besides, planner and
// worker check for each page whether presence.status shows the user hidden by a later version.
//
// # Failure
//
// A graph or a Redis that does not answer stops the partition: the batch is tried again. While a list of denied
// viewers is behind, the planner holds back the transitions of its user. When a process is killed,
// its transaction is aborted; the next owner of the partition runs the jobs since the last commit
// again.
package expand
