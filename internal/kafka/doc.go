// Package kafka is the Kafka loop: it reads topics for the rooms, writes for
// them, and keeps the promises about what happens when something breaks. Rooms
// hand it tasks and handlers and never see a Kafka client.
//
// # Transform: exactly once
//
// A Transform reads the partitions of the heartbeats that its group gives it,
// and runs one Task for each:
//
//	poll → every partition's goroutine handles its records → what they put out
//	goes into the transaction → commit: records, offsets, checkpoints → poll …
//
// A transaction begins when there is something to publish and ends as soon as it
// may, at most every Config.CommitInterval; offsets with nothing to publish wait
// for Config.IdleCommitInterval. It holds Config.MaxTransactionRecords at most, and
// less where the brokers are slow; a SlicedTask can have more than that put out for
// one record, by several transactions. What is forwarded goes through the plain
// Producer and is acknowledged before the transaction ends. The owner of a
// partition appends a tick to it every Config.TickInterval.
//
// A partition is restoring (its task reads the status and the heartbeats that it
// needs; nothing is fetched for it yet), then running. When its task returns an
// error or panics, what it had handled is committed with the rest, and the
// partition alone is restored, after a pause that grows; a task that failed
// Config.MaxFailures times at the same record leaves its partition parked: only
// a restart of the process, or another owner, tries again.
//
// Sessions are what breaks. A session is one membership in the group with one
// transactional producer; it is thrown away with the state of all its partitions
// when
//
//   - a transaction's outcome is not known, or what it wrote was refused;
//   - the group took partitions away without asking, or somebody has our name;
//   - a task hangs;
//   - a partition made no progress for Config.StallTimeout although Kafka answers;
//     for one record that is twice as long at every restart, and after
//     Config.MaxFailures of them its partition is parked;
//   - the log of a partition turned out to be cut back, overtaken or replaced.
//
// Of two processes with one Config.InstanceName the younger ends.
//
// The next session begins after a pause that grows from 50 ms to a second (from
// 5 s to a minute when we were fenced) and restores everything from what is
// committed. While Kafka does not answer, nothing is thrown away: the loop waits.
//
// A rebalance happens only between transactions: the loop commits what is in
// hand, then lets it go on. Partitions that stay keep running.
//
// When ctx of Run ends, the loop takes nothing new, commits what is in hand under
// a deadline of its own, and stays a member of the group: a process that comes
// back under the same Config.InstanceName within Config.SessionTimeout takes up
// its partitions at once, and nobody else does.
//
// # Follower: at least once
//
// A Follower reads a topic, read committed, for a Handler: effects first, offsets
// after. Every partition has a goroutine and a bounded queue; a handler that
// fails is called again with the same batch until it works, which holds up its
// partition alone. A Deferring handler takes batches in hand and says how far it has
// come; its offsets are committed up to there. Records that can never be decoded go to
// the dead letter topic.
// With WatermarksOf, a Watermarker hears about every second up to which log time
// everything has been applied, also when nothing happens.
//
// # Around them
//
// Producer appends outside of transactions and gives up in bounded time. Reader
// reads ranges of partitions. ApplyTopics and CheckTopics look after the topics.
package kafka
