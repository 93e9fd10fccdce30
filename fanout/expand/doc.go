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
// The planner delivers nothing about hidden users, and writes a STOP job. Besides, planner and
// worker check for each page whether presence.status shows the user hidden by a later version.
//
// # Tenants
//
// In text mode tenants get turns in planner and worker (package fair). A task reads up to Config.Ahead
// records ahead of those that it handles, into a queue for each tenant, and handles them by deficit round
// robin: a turn is a number of followers, and the tasks of a process that have a backlog share what is
// handled at a time. So a tenant's change waits for the reading of what others have written before it,
// and for a turn of each of them. Beyond Config.Ahead records in one partition it also waits until the
// rest of them has been handled.
//
// The committed offset stays at the first record of the backlog, and the checkpoint says for each tenant
// with a backlog (32 at most; the smallest are handled at once) where its first record is: all others
// before the end of what was read were handled. After a restart a task reads up to that end before it
// handles anything. Records of a user from before its name was known are in the queue of the default
// tenant; a later one of the user that is handled first supersedes them.
//
// # Failure
//
// A graph that does not answer stops the partition: the batch is tried again. When a process is killed,
// its transaction is aborted; the next owner of the partition runs the jobs since the last commit
// again.
package expand
