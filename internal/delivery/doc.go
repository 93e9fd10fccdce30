// Package delivery reads presence.deliveries and hands each delivery to a Channel.
//
//	presence.deliveries ──▶ Consumer ──drop duplicates──▶ Channel (fanout/channel, client/deliveries)
//	                            └─tried too often─▶ presence.deadletter
//
// # Promises
//
// Every delivery record reaches the channel at least once, or the dead-letter topic. While the
// process runs and its dedup cache has the pair (Config.Remember pairs), no recipient gets an older
// version of a user after a newer one, and none twice. After a crash every delivery from the first
// one in progress comes again, with the same ID. Four kinds of deliveries are withheld and count as
// handled: about a user who is hidden by now, from before the user's erasure, to a recipient who may
// not see the user by now (Consumer.Authorize), and older than Config.MaxAge.
//
// # All transitions
//
// A channel of all transitions (Job.Transitions) reads presence.transitions with the same promises,
// for one receiver that stands for everybody. It sends each transition of a visible user, and of
// each hide one notice that says no more than that. It leaves out changes of the list of denied
// viewers. What was published before a hide and has not been delivered is withheld. The ID of a notice is the event id.
//
// # Tenants
//
// In text mode a channel may serve some tenants only (Job.Tenants); the records of others count as handled
// when they are read. Channels with different names share nothing: neither offsets, queues, tries nor
// rates. So the receivers of two tenants that have a channel each do not delay each other.
//
// # Order and time
//
// Each user with deliveries in progress has a queue, in order. The queues of different users proceed
// at the same time, Config.Concurrency of them, at Config.Rate at most. A failed delivery is tried
// again after a growing, jittered pause, until it succeeds or has used Config.Attempts. It delays
// later deliveries about the same user and nobody else: repeated tries, and tries that take longer
// than a second, have slots of their own. Config.Queue bounds what is in progress of a partition;
// when it is full, the partition is not read.
//
// # Offsets
//
// An offset is committed only when everything before it was delivered, withheld or written to the
// dead-letter topic. When a partition is released, what has not failed is delivered first; what has
// failed is left to the next owner.
package delivery
