// Package expand turns transitions into deliveries to followers.
//
//	presence.transitions ──▶ Planner ──up to high_follower───────────────▶ presence.deliveries, first half
//	                            └─SPLIT, STOP─▶ presence.fanout ──▶ Worker ──▶ presence.deliveries, second half
//	                                                   ▲───RANGE───────┘
//	presence.status ──▶ here.Register ┄┄┄ who is here, who hides ┄┄┄▶ Planner, Worker
//	presence.fanout ──▶ Newest ┄┄┄┄┄┄ which jobs are void ┄┄┄┄┄┄┄┄┄┄▶ Worker
//
// Planner and Worker are tasks of the exactly-once loop: what they write is
// committed together with the offsets of what they read, so from transition to
// delivery record nothing is lost and nothing doubled, however often a process is
// killed.
//
// # An expansion
//
// Of each batch the planner takes the newest transition of a user (one who flaps
// is told of once). A user is expanded at most once in Config.Gap: of what changes
// meanwhile the newest waits, and is planned when the gap is over. The offset that is
// committed does not go past the first transition that waits, and the checkpoint says
// which of the records behind it were planned, so a restart loses and doubles nothing.
// Hides do not wait. A user with few followers is expanded at once. Of one with
// many it writes a SPLIT job; whichever worker gets it cuts the followers into
// ranges and writes a RANGE job for each, spread over all partitions of
// presence.fanout; so all workers share one celebrity, and cutting, which takes a
// second for ten million followers, holds up nobody but the celebrity.
//
// # Order
//
// Ranges stay as they are while they are in use, and the jobs of one range go to
// one partition, in the order of the versions. The partition of a delivery record
// follows from the user and the follower's id alone, whatever the ranges. A
// job is void when presence.fanout holds one of the same user with a greater
// version, anywhere; workers look before each page, and before they put out what came of it. A STOP job has no effect but
// that. Workers begin only when they know all of presence.fanout, so a job that was
// overtaken during an outage is void, not late.
//
// Of users who hide the planner tells nothing, and writes a STOP. Besides,
// planner and worker look at each page whether presence.status says that the user
// hides by a later version.
//
// # Failure
//
// A graph that does not answer holds up the partition: the batch is tried again.
// A process that dies leaves its transaction to be aborted; the next owner of the
// partition does the jobs since the last commit again.
package expand
