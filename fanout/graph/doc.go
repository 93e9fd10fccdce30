// Package graph says who follows whom: the Store, a cache of the users who changed state recently,
// files of edges, and synthetic graphs for trials and benches.
//
//	FILE.csv ──load──▶ Store (Postgres, SQLite) ──▶ Cache ──▶ planner
//	generate ──▶ FILE.csv       │                             whole, up to high_follower
//	                            └──────ranges, pages────────▶ workers
//
// # Freshness
//
// After an unfollow is committed, the Cache removes the entry: Store.Watch reports it within
// milliseconds on Postgres and 250 ms on SQLite. When a report may have been missed, the Cache
// removes everything. Entries expire after CacheConfig.TTL, for changes that nobody reports. Workers
// read pages as they need them, without a cache.
//
// # Failure
//
// If the database does not answer, the method returns an error, and the processor tries the batch
// again. An interrupted load resumes after the last committed chunk: the position in the file is
// stored in the same transaction as the edges.
package graph
