// Package load is the load generator. It simulates users of a product: people who
// come, work, fall idle, come back and leave, with a goodbye or without, through
// gateways that crash now and then.
//
// # Flow
//
//	seed ─▶ World.Step(now) ─▶ requests, one or more a gateway ─▶ POST /presence/heartbeats
//
// A World has no clock and sends nothing: it says which beats are due at an
// instant. Run asks it four times a second and posts the beats. The requests of one
// gateway go one after the other, those of different gateways at the same time. A request that fails is not
// repeated; its people beat again within seconds, as clients do.
package load
