// Package embedded is Kafka and Redis within the process, for `stillhere dev` and
// for tests. Real clients talk to them through real protocols, over TCP or, in a
// testing/synctest bubble, over pipes.
//
// Kafka keeps its data in a directory if it is given one, locks that against
// other processes, and survives kill -9 with everything it acknowledged; its
// transactions do not (a copy may be doubled), and one broker means no
// replication. It stamps the records of topics with
// message.timestamp.type=LogAppendTime with their time of arrival. Retention is
// applied, compaction is not.
//
// Redis forgets everything at the end. Its keys age once a second.
//
// What cannot start says why in one line: the port that is in use, the directory
// that cannot be read or that another process uses, the file in it that is damaged.
// A damaged directory is taken up only on demand, with what is whole.
package embedded
