// Package oracle is a second implementation of "The rules, exactly" in detector/DESIGN.md. It is slow and
// plain, and was written from that text alone. The tests hold the machine in detector/liveness equal to
// it, record by record.
//
// # Flow
//
//	record ─▶ clock ─▶ evaluate(due limits, all users) ─▶ gateway ─▶ visibility ─▶ rows
//
// At every record it visits every user, collects the instants at which something is due, handles
// the earliest one, and starts over. Times are 64-bit and absolute. Between records it remembers
// only what the rules name. A restart that loses nothing is no event; one that does (Loss) begins
// another world with what is left.
//
// It shares the policy and the messages with the machine, and no code.
package oracle
