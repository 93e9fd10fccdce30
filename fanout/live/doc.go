// Package live serves the live stream: GET /presence/stream as a WebSocket or as Server-Sent
// Events, and the same stream inside a socket that a gateway handler owns (Server.Open).
//
// The hub has one entry for each user whom a viewer of this node watches, and receives changes from
// the bus. A viewer is one connection without its transport: requests in, messages out. One
// goroutine works for a viewer, and only while there is something to do. A session is the transport:
// a connection of its own. A queue holds the changes that wait for a viewer; when it is full it
// collapses to the newest change of each user. After a gap the hub reads the watched users again and
// sends corrections (resync).
//
// Locks: a shard of the hub first, then a viewer, never the other way round, and neither while
// anything blocks. Only a viewer's work blocks, and it holds no lock.
package live
