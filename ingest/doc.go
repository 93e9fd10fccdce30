// Package ingest is the door in: everything that says "this user is still here"
// comes through it, and leaves it as frames on presence.heartbeats.
//
//	sockets ──▶ socketgate ──▶ client ─┐ (this process is a gateway itself)
//	gateways written in Go ──▶ client ─┤
//	                                   ├─▶ Log ──▶ [presence.heartbeats]
//	HTTP ──▶ httpgate ─────────────────┘
//
// There are two ways through, because there are two promises.
//
// A caller of [client] gets no answer. The client keeps the newest report of
// every device and answers for it until Kafka has it: reports wait for the next
// flush (a second), what can change a state at once leaves within 10 ms, and
// while Kafka is away only the newest report per device is kept, to be sent with
// its true age afterwards. What is kept is bounded by the devices that are here,
// not by how long Kafka stays away.
//
// A caller of [httpgate] waits for the answer, and 202 means that Kafka has the
// beats. Nothing is kept on its behalf: concurrent requests share frames, and
// when Kafka does not answer in time they are all told 503 and may repeat.
//
// # Failure
//
// Kafka away: the client collapses to the newest report per device; HTTP answers
// 503 with Retry-After; sockets stay open.
//
// Stop: socketgate tells its clients to reconnect elsewhere, then the client
// writes what it holds and a draining frame to each partition in which it has
// users. None of these closings is a bye.
//
// Kill: at most one flush of reports is lost. Time to live is at least two
// heartbeat intervals, so nobody goes offline for it; after 10 s without frames
// the detector counts the gateway as lost and gives its users time to reconnect.
//
// Bad input: refused with the field named, nothing stored.
//
// [client]: https://pkg.go.dev/github.com/stillhere/stillhere/ingest/client
// [httpgate]: https://pkg.go.dev/github.com/stillhere/stillhere/ingest/httpgate
package ingest
