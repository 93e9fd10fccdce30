// Package fanout is the door by which changes leave: it tells the people who are
// looking (live), and the followers of users for whom that is switched on
// (expand, channel).
//
// The flow:
//
//	presence.transitions ──▶ publish ──▶ redisbus ══ Redis ══▶ redisbus ──▶ live ──▶ viewers
//	                                     keep recent, publish   one connection    one queue each
//	                                                            per node
//
//	presence.transitions ──▶ expand ──▶ presence.deliveries ──▶ channel ──▶ webhook, log, your own
//	     who follows: graph    ▲  │ users with many followers
//	     who is here: here     └──┘ presence.fanout
//
// publish drops what nobody may see and hands the rest to redisbus, which in one
// atomic script keeps the change for a minute under the user's recent key and
// publishes it on the user's channel. live holds one entry per user that somebody
// on this node watches, folds each change into it, and puts the result in the
// queue of each viewer.
//
// # A subscription
//
//	attached ──channel confirmed──▶ reading ──snapshot──▶ live ──▶ gone
//
// Attached: the viewer is in the user's entry and is sent nothing yet. The channel
// is confirmed by Redis before anything is read, so whatever the read misses comes
// by the channel. The snapshot is the newest by version of three: what the
// current-status view says (its projector may be late), the recent key (published
// before the channel was ours), and the entry. From then on only strictly newer
// versions go out.
//
// # Failure
//
//   - Redis gone: publish answers an error, the Kafka loop holds its place and
//     tries again; nothing is lost. A viewer who subscribes meanwhile is given what
//     the view says with stale_since set; those who have subscribed hear nothing.
//   - Redis back, or the subscribing connection lost for any reason: all channels
//     are subscribed again, then every watched user is read again, and what differs
//     is sent as resync.
//   - A partition is stale: stale_since says so in what is read. Nothing is made up,
//     and the node reads again until it can say that all is well.
//   - A viewer reads too slowly: its queue keeps the newest state of each user and
//     says how many were left out; if that lasts a minute it is disconnected.
//   - The node stops: viewers are told to reconnect after a jittered delay, then
//     closed; Run returns when the last goroutine has ended.
//
// How followers are told, and what happens when that fails, is in the packages
// expand (exactly once up to the delivery record), graph and channel (at least once
// from there, deduplicated).
//
// This package itself holds what the parts share: Change, Config and Metrics.
package fanout
