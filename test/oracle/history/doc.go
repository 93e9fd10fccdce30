// Package history describes histories of a partition, runs the machine on them, and shrinks a
// history on which two implementations of the detector's rules differ to a case that a person can
// read.
//
// The tests compare the machine with the oracle on random histories. Such a history is made from a
// byte string, so that go test -fuzz can steer it; a seed stands for the byte string that a
// generator makes of it. Most times lie on a coarse grid, so that limits, beats and ticks often
// meet in the same instant.
package history
