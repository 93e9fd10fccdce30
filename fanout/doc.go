// Package fanout sends changes of users to viewers, who watch them (live), and to followers, where
// that is switched on (expand, channel).
//
// The flow:
//
//	presence.transitions ──▶ publish ──▶ redisbus ══ Redis ══▶ redisbus ──▶ live ──▶ viewers
//	                                     store, publish         one connection    one queue each
//	                                                            per node
//
//	presence.transitions ──▶ expand ──▶ presence.deliveries ──▶ channel ──▶ webhook, log, your own
//	        followers: graph   ▲  │ users with many followers
//	          present: online  └──┘ presence.fanout
//
// publish drops what viewers may not see. For the rest redisbus runs one atomic script, which stores
// the change for a minute under the user's recent key and publishes it on the user's channel. live
// has one entry for each user whom a viewer of this node watches. It folds each change into the entry
// and puts the result into the queue of each viewer.
//
// # A subscription
//
//	attached ──channel confirmed──▶ reading ──snapshot──▶ live ──▶ ended
//
// Attached: the viewer is in the user's entry and is sent nothing yet. Redis confirms the channel
// before live reads anything, so the channel brings whatever the read misses. The snapshot is the
// newest version of three: the current status (its projector may be late), the recent key (published
// before the channel was subscribed), and the entry. From then on only newer versions are sent.
//
// # Failure
//
//   - Redis is away: publish returns an error, and the consumer applies the same batch again, so
//     nothing is lost. A viewer who subscribes meanwhile gets the current status with stale_since
//     set. Viewers who have subscribed get nothing until Redis is back.
//   - Redis is back, or the subscriber connection was lost: the bus subscribes to all channels, live
//     reads every watched user again and sends what differs as resync.
//   - A partition is stale: what is read has stale_since. The node reads again until it has not.
//   - A viewer reads too slowly: its queue keeps the newest state of each user and sends how many
//     changes it dropped. After a minute of that the viewer is disconnected.
//   - The node stops: it asks viewers to reconnect after a jittered delay and closes them. Run returns
//     when the last goroutine has ended.
//
// How followers get deliveries, and what happens when that fails, is in the packages expand (exactly
// once up to the delivery record), graph, and channel (from there at least once, deduplicated).
//
// This package itself has what the parts share: Change, Config and Metrics.
package fanout
