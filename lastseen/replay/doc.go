// Package replay gives data teams what was published: every change, who was here
// at an instant, who was online from when to when.
//
//	topic, a partition each ─┐
//	                         ├─▶ merge ─▶ hold ─▶ sessions, or as they are ─▶ JSON lines │ CSV │ Parquet
//	archive (durable store) ─┘
//
// # Order
//
// Rows are ordered by (at, user_id, version). That is a property of the rows alone:
// the same changes give the same bytes, whether they come from the topic, from the
// store or from both, however many partitions there are, and whoever asks again
// later. A partition of the topic is ordered by version; what its rows tell of
// lies in order but for a few of them (beats that were long under way, gateways
// whose users are let go slowly). So the partitions are merged by how far each
// has come, and rows are held back until all have come Options.Hold further. A row
// that is later than that stands where it was found, and is counted.
//
// # The seam
//
// What retention has taken from the topic comes from the store. Each partition has
// its own seam: the causing record (log epoch and heartbeats offset, both part of
// the version) of the first transition that is read from the topic. Of the store, what
// was caused by earlier records is taken; what that very record caused is taken
// from either, once. The store must have been written up to the seam: if not,
// there is an error and no file with a gap.
//
// # Under failure
//
// Kafka or the store away: reading waits and goes on. ctx ended: what has been
// written is completed (a Parquet file gets its footer) and stays; replaying with
// Resume goes on after its last row. Retention overtakes the replay at the seam:
// ErrOvertaken; starting again finds another seam.
package replay
