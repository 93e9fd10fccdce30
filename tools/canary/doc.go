// Package canary acts as two users of its own, so that an operator learns what users see before the
// users say it.
//
// Each user has a walk, which is one loop of rounds:
//
//	beat    a heartbeat is accepted by ingest
//	online  the stream shows the user online           from the beat
//	read    a read answers at least that version       from the stream's change
//	bye     the stream shows the user offline          from the bye         (the user who says bye)
//	away    the stream shows the user away             from the limit of the policy   (the silent user)
//	silence the stream shows the user offline          from the limit of the policy   (the silent user)
//	replay  presence.transitions has each change that the stream has shown, once, in order, and by
//	        no other name than the user's
//
// One user says bye in each round, so its rounds take less than a second. The other falls silent, so
// its rounds take as long as the policy says.
//
// Each step has a timeout of its own and ends with it, whatever hangs, so a round always ends and its
// result is always counted. A failed step ends the round. The next round begins with a bye, unless the
// stream shows the user offline.
//
// The clock is this machine's and only spans are measured, so it need not agree with any other. A user
// who leaves before its limit is a failure with the reason early: the pipeline said offline of a user
// who was online.
package canary
