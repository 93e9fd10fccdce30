// Package oracle is the second implementation of "The rules, exactly" in
// ../DESIGN.md: slow, without any cleverness, and written from that text alone.
// The machine in ../liveness is held equal to it, record for record.
//
// # Flow
//
//	record ─▶ clock ─▶ evaluate(due limits, all users) ─▶ gateway ─▶ visibility ─▶ rows
//
// At every record it goes over every user, collects the instants at which
// something is due, takes the earliest, does what is due there, and starts over.
// Times are 64-bit and absolute. Nothing is remembered between records but what
// the rules name. A restart that loses nothing is no event here; one that does
// (Loss) begins another world with what is left.
//
// With the machine it shares the policy and the messages, no code.
package oracle
