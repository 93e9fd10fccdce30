// Package process tests binaries of the whole pipeline: the tests kill them, restart them, take
// their Redis and Postgres away, and talk to them as other people's clients do. The tests take
// seconds of real time, so they run where STILLHERE_PROCESSES=1 (or STILLHERE_LONG=1) asks for
// them, and never under -short. Only the timeline's judgement depends on how fast the machine is.
//
//	timeline  one beat to the millisecond, also across a kill of everything
//	kills     dev killed at random while 200 users come and go
//	kcat      librdkafka's partitioners; dead letters
//	documents every command of README and docs, on one dev
//	bad       starts that must be refused, input that must be refused
//	sockets   24 clients that watch one another
//	stop      a planned restart that nobody notices
//	upgrade   the previous program replaced by this one under load, role by role, and back
//	sink      two lastseen processes that are killed and frozen, also between two statements; rows
//	          and dead letters are counted and hashed (STILLHERE_SINK_KILLS, STILLHERE_SINK_SEED)
//	postgres  the sink while Postgres is killed, frozen, full, read-only, locked, out of
//	          connections, or fails over to a replica
//	boards    every query of every panel and alert, asked of a real Prometheus under load
//	redis     every role while Redis is killed, frozen, emptied, or fails over
//
// The packages beside it: attack (attackers), storm (detectors that are killed while users come
// and go), kafka (Apache Kafka that fails), testkit (what all of them use). ../DESIGN.md says which
// test holds which fault, scenario and goal.
package process
