// Package load is the load generator. It simulates users of a product, who connect, work, become
// idle, return and leave, with a bye or without, through gateways that crash now and then.
//
// # Flow
//
//	seed ─▶ World.Step(now) ─▶ requests, one or more a gateway ─▶ POST /presence/heartbeats
//
// A World has no clock and sends nothing: it returns the beats that are due at an instant. Run
// asks it four times a second and posts the beats. The requests of one gateway go one after the
// other, those of different gateways at the same time. A failed request is not repeated; its
// users beat again within seconds, as clients do.
package load
