// Package httpgate is the door in over HTTP.
//
//	POST /presence/heartbeats             beats, by apps and by gateways in any language
//	PUT  /presence/{user_id}/visibility   who may see a user
//
// An answer means that Kafka has it: 202 and 200 after the brokers'
// acknowledgement, 503 with Retry-After when there was none in time. A request
// that was told 503 may have been written in part; repeating it is harmless.
//
// Requests share frames. Beats for a partition leave at once when nothing is on
// its way there; otherwise they wait for others, a few milliseconds at most. Of
// several reports of one device in a frame only the newest is written.
//
//	requests ──▶ lane (gateway, epoch, partition) ──▶ frames ──▶ Log
//	    ▲                                                          │
//	    └───────────────────────── done ◀──────────────────────────┘
//
// A gateway that names itself is kept alive: as long as its requests come, also
// empty ones, each partition into which it has sent beats of late gets an empty
// frame when nothing else went there.
//
// Every bound has an answer: a body that is too long 413, too many beats 400, too
// much at a time 503. A user's own token has bounds that gateways and administrators
// do not have: 32 devices in a request (400 too_many_devices), and every beat counts
// as a request of that user (429 too_many_requests with Retry-After; 400
// too_many_beats when the request is larger than the limit ever allows at once).
package httpgate
