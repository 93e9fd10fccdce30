// Package e2e tests the whole pipeline: from the doors in, through Kafka, the
// detector, the stores and the fan-out, to the doors out. It has only tests; what
// runs in them is the production wiring of package assembly, with other
// addresses.
//
// # In virtual time (virtual_*_test.go)
//
// A test lives in a testing/synctest bubble in which a day takes seconds: kfake
// and the doors on an in-memory network, Redis over pipes, SQLite in a file. The
// clock of a bubble moves only when everybody waits, so what is sent at an instant
// is in the log at that instant, and expectations are exact to the millisecond.
// This needs the build tag synctests, without which the Kafka client's mutexes
// would hold the clock; without the tag the tests are skipped.
//
//	world    servers, and processes started by role and stopped gracefully
//	actors   people and gateways, who speak HTTP and WebSocket, and remember what they sent
//	tap      the records of the heartbeats, collected before retention drops them
//	check    what must hold at the end of every test:
//	           transitions, read committed  =  detector/oracle over the tapped heartbeats
//	           rows of SQLite               =  transitions, none twice
//	           answers of the API           =  the last transition of every user
//	           no goroutine of a process outlives it
//	fleet    every role in processes that die, freeze and come back; wire is all
//	         that joins one to the world; faults draws what goes wrong; hours lets
//	         hours of it pass (-sim.seed, -sim.seeds, -sim.hours)
//	expect   what must come of the input of a person with one device, from the
//	         rules alone and without looking at any topic
//
// # With real processes (process_*_test.go)
//
// The same questions asked of binaries that are killed, of other people's clients
// and of bad input. They are built once per run, take seconds of real time, and are
// skipped under -short. None of their judgements depends on how fast the machine is,
// but that of the timeline.
//
//	program   a process: what it said, how it ended; house: `stillhere dev` as one
//	timeline  one beat to the millisecond, also across a kill of everything
//	kills     dev killed at random while 200 users come and go
//	kcat      librdkafka's partitioners; dead letters
//	bad       starts that must be refused, input that must be refused
//	sockets   24 clients that watch one another
//	stop      a planned restart that nobody sees
//	storm     broker, producer, detectors that are killed, frozen, made to kill
//	          themselves at crash points, that join and leave: fate decides, life
//	          does it, load writes, judge compares with the oracle, marks counts
//	          transactions (STILLHERE_STORM_*)
//	sink      two lastseen processes that are killed and frozen, also between two
//	          statements; rows and dead letters are counted and hashed
//	          (STILLHERE_SINK_KILLS, STILLHERE_SINK_SEED)
//	postgres  what becomes of the sink when Postgres is killed, frozen, full, read-only,
//	          locked, out of connections, or falls back to a replica
//
// Tests of processes run where STILLHERE_PROCESSES=1 (or STILLHERE_LONG=1) asks for them: they
// build the program, and wait for real time.
//
// # On real servers (kafka_*_test.go)
//
// Where STILLHERE_TEST_KAFKA names a server, these start servers of their own with
// deploy/local/up, which they may kill; STILLHERE_LONG=1 runs those that take
// minutes. What was seen is in deploy/FAULTS.md.
//
//	servers   deploy/local/up, and doing something to one server
//	storm     the storm above, with brokers killed, frozen and stopped as well
//	pipeline  every role as a process of its own; judge holds transitions, rows and
//	          answers to the oracle
//	faults    traffic over HTTP while a fault comes and goes: nothing acknowledged is
//	          lost, nothing is doubled, stale is said, it works again by itself
//
// DESIGN.md tells which test holds which fault, scenario and goal.
package e2e
