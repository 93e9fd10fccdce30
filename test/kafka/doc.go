// Package kafka runs the pipeline on Apache Kafka and lets brokers fail. Where STILLHERE_TEST_KAFKA
// names a server, the tests start servers of their own with deploy/local/up, which they may kill.
// STILLHERE_LONG=1 runs the tests that take minutes. deploy/FAULTS.md says what was seen.
//
//	pipeline  every role as a process of its own; transitions, rows and answers must be the oracle's
//	faults    traffic over HTTP while a fault lasts: no acknowledged beat is lost or doubled, stale
//	          answers say so, and the pipeline recovers by itself
//	topics    topics that are deleted, recreated or enlarged under running roles
//	secured   TLS, passwords, client certificates, and grants for each role
package kafka
