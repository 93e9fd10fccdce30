// Package hanging finds and ends hanging transactions: open in a partition although their
// coordinator holds them for ended. Consumers that read committed wait at such a transaction for
// ever, and the producer's next transaction in that partition would take it along. Apache Kafka
// 4.3.1 leaves one behind when a partition has no leader while its marker is due (see DESIGN.md of
// internal/kafka), brokers before 4.0 when a write arrives after the end of its transaction
// (KIP-890).
//
// End runs when a session begins:
//
//	find open transactions → publish again what an abort could lose → abort them
//
// They are aborted by a new transaction that the partitions are added to: its marker ends the old one
// as well, and the writer needs no other right.
//
// An abort alone would lose changes. If the coordinator had committed the transaction, the offsets are committed:
// a restart runs muted to them and never publishes what came before. What comes after them, it publishes itself.
//
// Count runs while a session goes on; the session ends if it finds any. Transactions of other
// producers are reported. If their producer id belongs to no process any more, only an operator can
// end them (orphans); End publishes again what they may have committed, so that they can be aborted.
package hanging
