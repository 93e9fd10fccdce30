// Package rebuild fills a store from the log again while the pipeline runs.
//
//	presence.transitions ─▶ Lastseen ─▶ the durable store   (beside the sink)
//	presence.status ─▶ the projector ─▶ Redis                (requested by Redis)
//
// Lastseen writes the transitions that the topic has through the store's own fence, without moving the
// next offset: the sink waits for the end of a transaction and continues where it was. Existing rows
// stay: a change is unique by its event, and a user row never goes back to an older version. So a
// rebuild may be repeated, interrupted and run beside the sink. What retention has removed from the topic
// cannot be restored.
//
// Redis removes the progress of the partitions. The projector that owns a partition notices this within
// a second and rebuilds the partition; until then the durable store answers the reads.
package rebuild
