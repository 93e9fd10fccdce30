// Package graph says who follows whom: the Store that keeps it, a cache of the
// users who changed state recently, files of edges, and made-up graphs to try
// things with.
//
//	FILE.csv ──load──▶ Store (Postgres, SQLite) ──▶ Cache ──▶ planner
//	generate ──▶ FILE.csv       │                             whole, up to high_follower
//	                            └──────ranges, pages────────▶ workers
//
// # Freshness
//
// Who has unfollowed is told nothing more once the Store has committed it, plus a
// bound: the Cache hears of it by Store.Watch, within milliseconds on Postgres and
// 250 ms on SQLite, and forgets everything when it may have missed something; its
// entries live Cache's TTL at most, for changes that nobody announces. Pages are
// read by workers as they go and are not cached.
//
// # Failure
//
// A Store that does not answer is an error, which the Kafka loop meets by trying
// again. A load that was cut short goes on behind the last chunk that was
// committed: the place in the file is kept in the same transaction as the edges.
package graph
