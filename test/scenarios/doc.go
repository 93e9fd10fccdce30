// Package scenarios is a table of presence scenarios of one partition: logs written by hand, and
// the transitions that they must cause, worked out by hand from the rules in detector/DESIGN.md. The
// tests hold the machine and the oracle to it.
//
// Instants are milliseconds since the start of the log. The numbers of the names are those of the
// project's scenario list.
package scenarios
