// Package httpgate takes heartbeats and changes of visibility, audience and override over HTTP.
//
//	POST   /presence/heartbeats              beats, from apps and from gateways in any language
//	POST   /presence/connections             connections that gateways see open, idle and close
//	PUT    /presence/{user_id}/visibility    who may see a user
//	PUT    /presence/{user_id}/audience      the same, and what others learn of when the user was last here
//	POST   /presence/{user_id}/audience/deny to which single viewers a user looks hidden
//	PUT    /presence/{user_id}/override      what a user is shown as; DELETE ends it
//	DELETE /presence/{user_id}               erase a user
//
// With --ids text user_id is a name and device_id any text; ?tenant= and the field tenant of a beat
// name the tenant.
//
// An answer of 202 or 200 means that Kafka has acknowledged the data. 503 with Retry-After means
// that Kafka did not acknowledge it in time. The data may then have been written in part; repeating
// the request is harmless.
//
// Requests share frames. Beats for a partition are sent at once if no frame is in flight there;
// otherwise they wait for others, a few milliseconds at most. Of several reports of one device in a
// frame only the newest is written.
//
//	requests ──▶ lane (gateway, epoch, partition) ──▶ frames ──▶ Log
//	    ▲                                                          │
//	    └───────────────────────── done ◀──────────────────────────┘
//
// A gateway that names itself is kept alive: while its requests come, also empty ones, an empty frame to the topic
// gateways says every 1.5 s that it is there.
//
// Every bound has an answer: 413 for a body that is too long, 400 for too many beats, 503 for too
// many requests or beats at a time. A user's own token has bounds that gateways and administrators
// do not have: 32 devices in a request (400 too_many_devices), and every beat counts as a request
// of that user (429 too_many_requests with Retry-After; 400 too_many_beats if the request is larger
// than the limit ever allows at once).
package httpgate
