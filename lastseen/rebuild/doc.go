// Package rebuild makes a store anew from the log while the pipeline runs.
//
//	presence.transitions ─▶ Lastseen ─▶ the durable store   (beside the sink)
//	presence.status ─▶ the projector ─▶ Redis                (told to by Redis)
//
// Lastseen reads what the topic has and writes it through the store's own fence,
// without moving the next offset: the sink waits for the end of a transaction and
// goes on where it was. What is there already is left as it is: a change is unique
// by its event, a user row never goes back to an older version. So it may be
// repeated, interrupted and run beside the sink. What retention has taken from the
// topic cannot be brought back.
//
// Redis takes the marks of the partitions away. The projector that owns a partition
// misses its mark within a second, and rebuilds it under a new epoch; until then
// reads are answered by the durable store.
package rebuild
