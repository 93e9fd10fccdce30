// Package explain tells why a transition was published.
//
// # Flow
//
//	event id ─▶ transition ─▶ version ─▶ record of the heartbeats ─▶ rule ─▶ words
//	            (search.go)              (heartbeat.go)             (rule.go) (text.go)
//
// The id's time says where in presence.transitions to look; the version of what is
// found there names the record of presence.heartbeats at which the transition came
// about. Heartbeats are kept for minutes and transitions for weeks, so most often
// the record is gone: the transition itself carries enough to tell the rule. The
// arithmetic needs the settings by which it was decided; whether the given ones
// are those, the policy id tells.
//
// Nothing is written, no group is joined: explaining disturbs nobody.
package explain
