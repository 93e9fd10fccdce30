// Package policy finds the policy that is in force, compares it with what an operator
// asks for, and changes it.
//
// The policy of a pipeline rides in its log: a policy frame in a partition of the
// heartbeats brings it into force there, and the detector keeps it in the checkpoint that
// it commits. Flags of processes do not decide; they say what a new pipeline begins with,
// and a process that is started with flags that differ from the policy in force refuses.
// See ../../detector/DESIGN.md, Policy.
package policy
