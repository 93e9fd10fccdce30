// Package sim simulates days of a partition in seconds and compares the detector with its
// oracle.
//
// # Flow
//
//	seed ─▶ world (devices, gateways, faults) ─▶ history ─┬─▶ oracle ──────────────┐
//	                                                      ├─▶ machine ─────────────┼─▶ equal?
//	                                                      └─▶ machine, restarted ──┘
//
// The world is a list of events in virtual time: devices connect, beat, become idle and
// leave with or without a bye; gateways flush, report that they are alive, crash, drain and
// return; the owner of the partition ticks. Every virtual minute the seed chooses a fault: see
// faults.go. The records that reach the log are a history.History. Only that is compared, so a
// seed fails the same way on every machine.
//
// Package test/oracle/history makes short histories on a coarse grid, in which limits meet; this
// package makes long ones like those of real users.
//
// If the implementations differ, the test looks for a small history on which they still do.
//
// The whole pipeline, every role as a process of its own, is simulated by
// go test -tags synctests ./test/virtual -run TestSimulatedHours -v -sim.seed N -sim.hours H
package sim
