// Package sim runs days of a partition's life in seconds and holds the detector
// equal to its oracle.
//
// # Flow
//
//	seed ─▶ world (devices, gateways, faults) ─▶ history ─┬─▶ oracle ──────────────┐
//	                                                      ├─▶ machine ─────────────┼─▶ equal?
//	                                                      └─▶ machine, restarted ──┘
//
// The world is a list of events in virtual time: devices connect, beat, fall idle,
// leave with and without a bye; gateways flush, say that they are alive, crash,
// drain and come back; the owner of the partition ticks. Every virtual minute a
// fault is drawn: see faults.go. What reaches the log is a history.History, and
// nothing else is compared, so that a seed says everything and a failure is the
// same on every machine.
//
// package oracle/history draws short histories on a coarse grid in which limits
// meet; this package draws long ones that look like life.
//
// Where the implementations differ the history is cut down to a small one on
// which they still do.
package sim
