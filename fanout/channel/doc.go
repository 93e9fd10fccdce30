// Package channel brings deliveries to where people are told: it reads
// presence.deliveries and hands each to a Channel.
//
//	presence.deliveries ──▶ Consumer ──drop what was seen──▶ Channel (webhook, log, your own)
//	                            └─tried too often─▶ presence.deadletter
//
// # Promises
//
// Every delivery record reaches the channel at least once, or the dead letter
// topic. Of two versions of one user for one recipient, the older is never handed
// over after the newer, and none twice, as long as the process lives and remembers
// (Config.Remember pairs). After a crash some come again, with the same ID. Of a user
// who hides by now nothing is delivered, and nothing that is older than Config.MaxAge;
// both count as handled.
//
// # Order and time
//
// Deliveries of one user stay in order; those of different users go out at the
// same time, Config.Concurrency of them, at Config.Rate at most. A delivery that
// fails is tried again after a growing, jittered pause and holds up the users that
// share its lane, until it works or Config.Attempts are used up.
package channel
