// Package load plays users of a product, so that there is something to look at:
// people who come, work, fall idle, come back and leave, with a goodbye or
// without, through gateways that now and then die.
//
// # Flow
//
//	seed ─▶ World.Step(now) ─▶ requests, one or more a gateway ─▶ POST /presence/heartbeats
//
// A World has no clock and sends nothing: it says which beats are due at an
// instant. Run asks it four times a second and posts what it says, each gateway
// in turn with itself and beside the others. A request that fails is not
// repeated; its people beat again within seconds, as clients do.
package load
