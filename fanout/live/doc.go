// Package live is the stream of presence: GET /presence/stream as a WebSocket or as
// Server-Sent Events, and the same inside a socket that another room owns (Open).
//
// hub.go has one entry per user that somebody here watches, fed by the bus;
// viewer.go is one connection without its transport: requests in, messages out, by
// one goroutine that exists only while there is something to do; queue.go is what
// waits for a viewer, and its collapse; resync.go reads again after a gap.
//
// Locks: a shard of the hub, then a viewer, never the other way round, and neither
// while anything blocks. Only Viewer work blocks, holding none.
package live
