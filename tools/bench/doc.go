// Package bench measures how fast Stillhere is on the machine at hand, by commands
// that anyone can run.
//
// # Flow
//
//	stillhere bench NAME ─▶ Run ─▶ liveness │ detector │ pipeline │ live │ silence │ rebuild │ replay │ restore ─▶ Report (JSON, Markdown)
//	                                 │
//	                                 ├─ Kafka: --brokers, or a stand-in in a process of its own (cluster.go)
//	                                 └─ Redis: --redis, the one-key-per-user design, in the same run (reference.go)
//
// One file per bench; each says what it measures and what it leaves out. The
// production code is measured, unchanged: the same loops, the same settings unless
// a bench says so. Figures depend on what else the machine does, so every result
// carries the load average.
//
// # Failure
//
// A bench that does not come to its end within its patience says what it waited
// for. What it made in a Kafka cluster that it was given, it deletes.
package bench
