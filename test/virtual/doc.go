// Package virtual tests the whole pipeline in virtual time: from the HTTP and WebSocket
// endpoints of ingest, through Kafka, the detector, the stores and the fan-out, to the
// endpoints that readers and viewers use. It has only tests. They run the production wiring
// of package app with other addresses.
//
// A test lives in a testing/synctest bubble, in which a day takes seconds: kfake and the
// endpoints are on an in-memory network, Redis is on pipes, SQLite is a file. The clock of a
// bubble moves only when every goroutine waits. What is sent at an instant is in the log at that
// instant, so expectations are exact to the millisecond. This needs the build tag synctests:
// without it the Kafka client's mutexes would stop the clock, and the tests are skipped.
//
//	world    the servers, and processes that are started by role and stopped gracefully
//	actors   people and gateways: they speak HTTP and WebSocket and remember what they sent
//	tap      the records of the heartbeats, collected before retention drops them
//	check    what must hold at the end of every test:
//	           transitions, read committed  =  test/oracle over the tapped heartbeats
//	           rows of SQLite               =  transitions, none twice
//	           answers of the API           =  the last transition of every user
//	           no goroutine of a process outlives it
//	fleet    every role in processes that crash, freeze and return. All that joins a process to
//	         the world goes through wire; faults draws what fails; hours lets hours of it
//	         pass (-sim.seed, -sim.seeds, -sim.hours)
//	expect   what must follow from the input of a person with one device, from the rules alone
//	         and without a look at any topic
//
// ../DESIGN.md says which test holds which fault, scenario and goal.
package virtual
