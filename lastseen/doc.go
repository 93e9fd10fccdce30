// Package lastseen is the door out for history: who was here, who is here, and
// everything that changed in between. It reads presence.transitions and
// presence.status and answers HTTP reads.
//
//	transitions ──▶ sink ──────▶ store (pgstore | sqlitestore) ──┐
//	     │                                                       ├──▶ query ──▶ GET /presence/…
//	     └────────▶ projector ─▶ redisview ──────────────────────┘
//	status ──(rebuild)──┘
//
// This package holds the room's Config and Metrics. The rest:
//
//	store        what the room asks of a durable store; storetest is its contract
//	pgstore      keeps it in Postgres          sqlitestore  keeps it in a SQLite file
//	sink         handler: transitions to the store, each exactly once
//	redisview    current status in Redis       projector    handler: transitions to redisview
//	query        the HTTP reads, and the Reader that fanout takes its snapshots from
//
// # Under failure
//
// The durable store is away: the sink returns errors, so the Kafka loop tries the
// same batch again and lag grows; nothing is lost, memory does not grow. Reads go
// on from Redis; of users whom a rebuilt Redis does not have it is said that they
// are offline, with stale_since. Histories are answered with 503.
//
// The store loses its last transactions (failover): the sink finds the next
// offset behind its own and returns sink.ErrLostPlace, upon which the Kafka loop
// reads that partition again from there.
//
// The sink is killed, or there are two of them for a partition: rows and next
// offset are written in one transaction that begins by moving the offset from the
// expected value. Who expects another value writes nothing.
//
// Redis is away: the projector returns errors like the sink; the durable store
// answers the reads, with stale_since.
//
// Redis comes back empty, or without its last writes: the partition's mark is
// missing or older than the projector remembers, which it sees at its next write,
// after a second at most. It rebuilds the partition from the status topic under a
// new epoch. From the loss until the end of the rebuild an absent key means
// unknown: the durable store answers, with stale_since. That Redis was not emptied
// while keys were read is known from its marks before and after them. In a cluster a
// node may be emptied that has no marks: keys that lie on all of them are missed then,
// within a second, and every partition is rebuilt. Every rebuild is warned about, but
// the first one of a pipeline that is new.
//
// The pipeline stands still: the marks' watermarks grow old, and after stale_after
// every answer says since when. No answer turns offline because of it.
package lastseen
