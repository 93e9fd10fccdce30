// Package processor is the exactly-once loop. A Processor reads the partitions of a topic that its
// group gives it and runs one Task for each:
//
//	poll → every partition's goroutine handles its records → their output goes into the transaction → poll …
//
// When a commit of output, offsets and checkpoints is due, it begins as soon as partitions handle what came next, and
// their output waits for its end.
//
// # Transactions
//
// A transaction begins with the first output and is committed Config.CommitInterval after the last
// one began, or up to twice that where commits take long; offsets without output wait for
// Config.IdleCommitInterval. It holds Config.MaxTransactionRecords at most, and less while the brokers are slow.
// Forwards go through the plain Producer and are acknowledged before the transaction ends. Every
// Config.TickInterval the owner of a partition of the heartbeats appends a tick to it, which says whether the
// partition keeps up; where the task has nothing to do, every second.
//
// # States of a partition
//
//	restoring → running → (task failed) restoring … → parked
//
// While it is restoring, its task reads what it needs, and nothing is
// fetched. When its task returns an error or panics, what it had handled is committed with the work
// of the others, and this partition alone is restored, after a pause that grows. After
// Config.MaxFailures failures at one record it is parked until the process restarts or another one
// gets it. A partition that was added to the topic under the process is parked at once.
//
// # Failures
//
// A session is one membership in the group with one transactional producer. It ends, with the state
// of all its partitions, when
//
//   - the outcome of a transaction is unknown, or its records were refused;
//   - the group took partitions away, or another process has the instance name;
//   - a partition made no progress for Config.StallTimeout although Kafka answers; a single record
//     gets twice the time at every restart;
//   - the log of a partition was truncated, expired or recreated;
//   - Kafka left a transaction of this process open (package hanging).
//
// The next session restores everything from what is committed. While Kafka does not answer, the
// session waits and keeps its state.
//
// A rebalance happens only between transactions: the loop commits what is in hand, then allows it.
// Partitions that stay keep running.
//
// When the context of Run ends, the loop takes nothing new and commits what is in hand within Config.StopTimeout, or
// aborts it, if a rebalance prevents the commit. Then each StoppingTask writes what makes the next start faster, for half
// of Config.RebalanceTimeout at most. The process stays a member of the group: one that starts under the same
// Config.InstanceName within Config.SessionTimeout gets its partitions at once.
package processor
