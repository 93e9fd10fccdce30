// Package lastseen stores presence and answers reads: who is online, who was, and every
// change in between. It reads presence.transitions and presence.status.
//
//	transitions ──▶ sink ──────▶ store (pgstore | sqlitestore) ──┐
//	     │                                                       ├──▶ query ──▶ GET /presence/…
//	     └────────▶ projector ─▶ redisview ──────────────────────┘
//	status ──(rebuild)──┘
//
// This package holds the service's Config and Metrics. The rest:
//
//	store        what the service needs of a durable store; storetest is its contract
//	pgstore      keeps it in Postgres          sqlitestore  keeps it in a SQLite file
//	sink         handler: transitions to the store, each exactly once
//	redisview    current status in Redis       projector    handler: transitions to redisview
//	query        the HTTP reads, and the Reader that fanout takes its snapshots from
//
// # Failure
//
// The durable store is unavailable: the sink returns errors, the consumer retries the
// same batch and lag grows. Nothing is lost, and memory does not grow. Redis goes on
// answering reads; users that a rebuilt Redis lacks are reported offline, with
// stale_since. Histories answer 503.
//
// The store loses its last transactions (failover): the sink finds the store's next
// offset behind its own and returns sink.ErrStoreBehind. The consumer then reads that
// partition again from the store's offset. The process keeps running and needs no
// restart.
//
// The sink is killed, or two sinks own a partition: one transaction writes rows and next
// offset, and begins by moving the offset from the expected value. A stale writer is
// fenced and writes nothing.
//
// Redis is unavailable: the projector returns errors like the sink; the durable store
// answers the reads, with stale_since.
//
// Redis comes back empty, or without its last writes: the partition's progress is missing or
// older than the projector remembers. The projector notices this at its next write, after
// a second at most, and rebuilds the partition from the status topic under a new epoch.
// From the loss until the end of the rebuild an absent key means unknown: the durable
// store answers, with stale_since. Progress read before and after the keys show whether Redis
// was emptied in between. In a cluster a node without progress may be emptied: sentinel keys
// on every node are missing then; the projector notices this within a second and rebuilds
// every partition. It logs a warning for every rebuild except the first of a new pipeline.
//
// Kafka is restored from a copy older than the stores: both stay as they are, so that answers have
// stale_since, until a version of a new log epoch comes. Then Redis is rebuilt.
//
// The pipeline stands still: the watermarks grow old, and after stale_after every
// answer has stale_since. No answer turns offline because of it.
package lastseen
