// Package history makes random histories of a partition, holds implementations of
// the detector's rules equal on them, and cuts what differs down to a case that a
// person can read.
//
// A history is made from a byte string, so that go test -fuzz can steer it; a
// seed stands for the byte string that a generator makes of it. Times lie mostly
// on a coarse grid, so that limits, beats and ticks often meet in the same
// instant.
//
// Test packages that use it must be external (package liveness_test): the
// package imports liveness.
package history
