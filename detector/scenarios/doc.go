// Package scenarios is the table of presence scenarios at the level of one
// partition: logs written by hand, and the transitions that must come of them,
// worked out by hand from section 4 of the design. Run holds any implementation
// of ../DESIGN.md to it.
//
// Instants are milliseconds since the start of the log. The numbers are those of
// the project's scenario list.
package scenarios
