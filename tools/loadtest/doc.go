// Package loadtest measures a pipeline on the machine and the Kafka at hand: how long a beat
// takes until it is a committed transition and the API's answer, and how many beats a second
// one gateway and one detector carry. `stillhere bench pipeline` runs it. The laboratory
// benches (`go run ./bench`) use its Rig and its Report.
//
// # Flow
//
//	Flags.Measure ─▶ Bench.Run ─▶ Rig (topics of its own, stand-ins in another process) ─▶ Report (output.Write)
//
// Production code is measured, unchanged: the same loops, the same settings unless a bench says
// so. Figures depend on what else the machine does, so every result carries the load average.
//
// # Failure
//
// A bench that does not finish in time (see Timeout) says what it waited for. It deletes the topics
// that it made in a Kafka cluster that it was given.
package loadtest
