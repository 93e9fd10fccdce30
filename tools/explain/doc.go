// Package explain explains why a transition was published.
//
// # Flow
//
//	event id ─▶ transition ─▶ version ─▶ record of the heartbeats ─▶ rule ─▶ words
//	            (search.go)              (heartbeat.go)             (rule.go) (text.go)
//
// The id holds a time, which says where in presence.transitions to look. The version of the
// transition names the record of presence.heartbeats that caused it. Kafka keeps heartbeats for
// minutes and transitions for weeks, so the record is often deleted already; the transition
// itself has enough to find the rule. The arithmetic needs the settings that were in force:
// presence.policies has them under the policy id of the transition.
//
// The package only reads: it writes nothing and joins no consumer group.
package explain
