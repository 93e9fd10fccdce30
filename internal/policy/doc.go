// Package policy finds the policy that is in force, compares it with what an operator
// asks for, and changes it.
//
// The policy of a pipeline is part of its log: a policy frame in a partition of the
// heartbeats brings it into force there, and the detector keeps it in the checkpoint that
// it commits. Flags give the policy of a new pipeline only. A process whose flags
// differ from the policy in force refuses to start.
//
// A transition names the policy that judged it by the policy's id. Detectors write the settings of every
// policy into the compacted topic policies before that, where commands find them by the id (known.go). Keeper says
// which ones the topic lacks (keep.go).
// See ../../detector/DESIGN.md, Policy.
package policy
