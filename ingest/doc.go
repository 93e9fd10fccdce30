// Package ingest takes heartbeats and writes them as frames to presence.heartbeats.
//
//	sockets ──▶ socketgate ──▶ beat ─┐ (this process is a gateway itself)
//	gateways written in Go ──▶ beat ─┤
//	                                 ├─▶ Log ──▶ [presence.heartbeats]
//	HTTP ──▶ httpgate ───────────────┘
//
// There are two paths, because they make two promises.
//
// A caller of [beat] gets no answer. Its buffer keeps the newest report of every
// device until Kafka has it. Reports wait for the next flush (a second); a report that
// can change a state at once is sent within 10 ms. While Kafka is unreachable the buffer
// keeps only the newest report per device and sends it afterwards with its true age. Its
// memory is bounded by the number of present devices, not by the length of the outage.
//
// A caller of [httpgate] waits for the answer: 202 means that Kafka has the beats.
// The gate keeps nothing for its callers. Concurrent requests share frames; if Kafka does
// not answer in time, all of them get 503 and may repeat.
//
// # Failure
//
// Kafka is unreachable: the buffer keeps the newest report per device, HTTP answers 503 with
// Retry-After, sockets stay open.
//
// Stop: socketgate asks its clients to reconnect elsewhere. Then the buffer writes what it
// holds, and a draining frame to each partition in which it has users. None of these
// closings is a bye.
//
// Kill: at most one flush of reports is lost. The time to live is at least two heartbeat
// intervals, so no user goes offline because of it. After 10 s without frames the detector
// counts the gateway as lost and gives its users time to reconnect.
//
// Bad input: refused, with the field named. Nothing is stored.
//
// [beat]: https://pkg.go.dev/github.com/stillhere/stillhere/internal/beat
// [httpgate]: https://pkg.go.dev/github.com/stillhere/stillhere/ingest/httpgate
package ingest
