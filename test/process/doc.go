// Package process tests binaries of the whole pipeline: they are killed, they meet other
// people's clients, bad input, attacks and real servers. It has only tests. The binaries are
// built once per run. The tests take seconds of real time, so they run where STILLHERE_PROCESSES=1
// (or STILLHERE_LONG=1) asks for them, and never under -short. Only the timeline's judgement
// depends on how fast the machine is.
//
//	program   a process: its output and its exit code
//	doors     `stillhere dev` as a process that keeps its data and its addresses when restarted
//	timeline  one beat to the millisecond, also across a kill of everything
//	kills     dev killed at random while 200 users come and go
//	kcat      librdkafka's partitioners; dead letters
//	bad       starts that must be refused, input that must be refused
//	attack    attacks on every endpoint, and what honest users noticed of them
//	sockets   24 clients that watch one another
//	stop      a planned restart that nobody notices
//	storm     broker, producer, detectors that are killed, frozen, made to kill themselves at crash
//	          points, and that join and leave: fate draws the plan, life carries it out, load
//	          writes, judge compares with the oracle, marks counts transactions (STILLHERE_STORM_*)
//	sink      two lastseen processes that are killed and frozen, also between two statements; rows
//	          and dead letters are counted and hashed (STILLHERE_SINK_KILLS, STILLHERE_SINK_SEED)
//	postgres  the sink while Postgres is killed, frozen, full, read-only, locked, out of
//	          connections, or fails over to a replica
//
// # On real servers (kafka_*_test.go)
//
// Where STILLHERE_TEST_KAFKA names a server, these tests start servers of their own with
// deploy/local/up, which they may kill. STILLHERE_LONG=1 runs those that take minutes.
// deploy/FAULTS.md says what was seen.
//
//	servers   deploy/local/up, and one act on one server
//	storm     the storm above, with brokers killed, frozen and stopped as well
//	pipeline  every role as a process of its own; judge compares transitions, rows and answers
//	          with the oracle
//	faults    traffic over HTTP while a fault lasts: no acknowledged beat is lost or doubled, stale
//	          answers say so, and the pipeline recovers by itself
//
// ../DESIGN.md says which test holds which fault, scenario and goal.
package process
