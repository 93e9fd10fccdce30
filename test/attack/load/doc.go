// Package load attacks a running pipeline for minutes, from four processes, beside 1,000 honest
// users, and prints what these noticed before, during and after. `.ci/attack` runs it.
//
// # Flow
//
//	test ─▶ stillhere dev, with authentication, and a Redis server ◀─ attackers: users │ gateways │ anonymous │ poison
//	  └─ honest users: beats, reads, a stream ─▶ errors, p50 and p99 of three phases
//
// Attackers are paced: the question is whether little work of an attacker makes much work for the
// server or holds something of it, not whether two cores can be kept busy. Attackers have machines
// of their own; here they share one with the server, so they run at nice 19. So that they cannot
// be too slow to attack, each has a least number of attempts a second. The test fails when an
// honest request failed, when a p99 under attack was ten times its quiet value, when memory did
// not come back, or when the attack was too weak.
package load
