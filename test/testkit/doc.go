// Package testkit runs binaries of the pipeline for tests in real time. Each binary is built once
// per run of a test package, and every process ends with its test.
//
//	build     builds binaries; skips tests unless STILLHERE_PROCESSES=1 or STILLHERE_LONG=1
//	program   a process: its output, its exit code, signals
//	dev       `stillhere dev`, restarted on the same data and addresses; requests to it
//	judge     compares histories and the log with the oracle
//	kcat      a client that is built on librdkafka
//	servers   Apache Kafka, Redis and Postgres from deploy/local/up
//	proxy     a TCP proxy that loses answers of a broker, delays or throttles them
package testkit
