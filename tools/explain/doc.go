// Package explain explains why a transition was published.
//
// # Flow
//
//	event id ─▶ transition ─▶ version ─▶ record of the heartbeats ─▶ the detector, run again ─▶ words
//	            (search.go)              (heartbeat.go)             (replay.go)                (text.go)
//
// The id holds a time, which says where in presence.transitions to look. The version of the
// transition names the record of presence.heartbeats that caused it. The detector's own machine
// (detector.Replay) is loaded from the newest snapshot before the record, handles what follows, and
// says what it knew of the user before and after. It must give the published transition again.
//
// Kafka keeps heartbeats for minutes and transitions for weeks. Of an older transition the package
// says what the transition itself says: its rule, in words (rule.go), and the settings that were in
// force, which presence.policies has under the policy id.
//
// The package only reads: it writes nothing and joins no consumer group.
package explain
