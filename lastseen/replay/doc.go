// Package replay exports what was published: every change, who was online at an instant, who was
// online from when to when.
//
//	topic, a source per partition ─┐
//	                               ├─▶ merge ─▶ reorder buffer ─▶ rows or sessions ─▶ JSON lines │ CSV │ Parquet
//	archive (durable store) ───────┘
//
// # Order
//
// Rows are ordered by (at, user_id, version). That is a property of the rows alone: the same changes
// give the same bytes, whether they come from the topic, from the store or from both, however many
// partitions there are. A partition of the topic is ordered by version, and nearly by time: a few
// rows are late (heartbeats that were long on their way, gateways whose users expire slowly). So the
// partitions are merged by how far each has come, and the reorder buffer keeps a row until all have
// come Options.Hold further. A row that is later than that is written where it was found, and
// counted.
//
// # The seam
//
// What retention has removed from the topic comes from the store. Each partition has its own seam:
// the causing record (log epoch and heartbeats offset, both part of the version) of the first
// transition that is read from the topic. The store gives what was caused by earlier records. What
// that very record caused comes from either, once. If the store has not been written up to the seam,
// Run returns an error, and there is no file with a gap.
//
// # Under failure
//
// While Kafka or the store cannot be reached, reading waits. When ctx ends, the rows so far make a
// complete file (a Parquet file gets its footer), and a Rotation can go on after its complete files. If
// retention overtakes the replay at the seam, the error is ErrOvertaken; starting again finds another
// seam. If the topic was recreated, the error is ErrRecreated.
package replay
