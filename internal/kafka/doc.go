// Package kafka holds what all Kafka clients of the pipeline share: configuration, security, a
// producer, a reader of ranges, metrics. Services never see a Kafka client: they give tasks and
// handlers to the two loops beside it.
//
// # processor: exactly once
//
// A processor.Processor reads the partitions of the heartbeats that its group assigns to it, and
// runs one Task for each:
//
//	poll → each partition's goroutine handles its records → their output goes into the
//	transaction → commit: records, offsets, checkpoints → poll …
//
// A transaction begins when there is something to publish and ends as soon as it may, at most every
// Config.CommitInterval; offsets with nothing to publish wait for Config.IdleCommitInterval. It
// holds Config.MaxTransactionRecords at most, and less while the brokers are slow; the output of
// one record for a SlicedTask can take several transactions. The plain Producer writes forwards,
// which are acknowledged before the transaction ends. The owner of a partition appends a tick to it
// every Config.TickInterval.
//
// A partition is first restoring (its task reads the statuses and heartbeats that it needs, and
// nothing is fetched for it), then running. When its task returns an error or panics, the loop
// commits what the task had handled and restores this partition alone, after a growing pause. A
// task that failed Config.MaxFailures times at one record leaves its partition parked: only a
// restart of the process, or another owner, tries again.
//
// A session is one membership in the group with one transactional producer. The loop ends it and
// drops the state of all its partitions when
//
//   - the outcome of a transaction is unknown, or its records were refused;
//   - the group revoked partitions without asking, or another process has this instance name;
//   - a task hangs;
//   - a partition made no progress for Config.StallTimeout although Kafka answers; the timeout
//     doubles at every restart for one record, and after Config.MaxFailures restarts its partition
//     is parked;
//   - the log of a partition was truncated, expired before it was read, or was recreated.
//
// Of two processes with one Config.InstanceName the younger one ends.
//
// The next session begins after a pause that grows from 50 ms to a second (from 5 s to a minute
// after fencing) and restores everything from what is committed. While Kafka does not answer, the
// loop keeps its state and waits.
//
// A rebalance happens only between transactions: the loop first commits what it has handled.
// Partitions that stay keep running.
//
// When ctx of Run ends, the loop takes no more records, commits what it has handled under its own
// deadline, and remains a member of the group: a process that restarts under the same
// Config.InstanceName within Config.SessionTimeout gets its partitions back at once.
//
// # consumer: at least once
//
// A consumer.Consumer reads a topic, read committed, for a Handler: effects first, offsets after.
// Each partition has a goroutine and a bounded queue. The loop retries a batch until its handler
// succeeds, which delays this partition alone. A deferring handler works on several batches at
// once and reports its progress; the loop commits offsets up to there. Records that can never be
// decoded go to the dead-letter topic. A handler with watermarks learns about every second up to
// which log time everything has been applied, also while no records come.
//
// # Around them
//
// Producer appends outside of transactions and gives up in bounded time. Reader reads ranges of
// partitions. Package admin creates and checks the topics.
package kafka
