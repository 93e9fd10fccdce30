// Package delivery brings deliveries to where people are told: it reads
// presence.deliveries and hands each to a Channel.
//
//	presence.deliveries ──▶ Consumer ──drop what was seen──▶ Channel (fanout/channel, client/deliveries)
//	                            └─tried too often─▶ presence.deadletter
//
// # Promises
//
// Every delivery record reaches the channel at least once, or the dead letter
// topic. Of two versions of one user for one recipient, the older is never handed
// over after the newer, and none twice, as long as the process lives and remembers
// (Config.Remember pairs). After a crash some come again, with the same ID: all from
// the first that was in hand. Of a user
// who is hidden by now nothing is delivered, nor to a recipient who may not see the user by
// now (Consumer.Ask), nor what is older than Config.MaxAge; all three count as handled.
//
// # Order and time
//
// Each user with deliveries in hand has a queue, worked off in order; the queues of
// different users go on at the same time, Config.Concurrency of them, at Config.Rate
// at most. A delivery that fails is tried again after a growing, jittered pause, until
// it works or Config.Attempts are used up, and holds up what comes after it of the same
// user and nobody else: what is tried again, or takes longer than a second, has slots of
// its own. Config.Queue bounds what is in hand of a partition; when it is full the
// partition is not read on.
//
// # Offsets
//
// An offset is committed only when everything before it was delivered, withheld or
// written to the dead-letter topic. When a partition goes, what has not failed is
// delivered first; what has failed is left to the next owner.
package delivery
