// Package socket is the server's end of a WebSocket (RFC 6455), made so that an
// idle connection costs little: a few kilobytes, most of it the stack of the one
// goroutine that waits for the client. What there is to do when the client has said
// something is done by another, which ends: a stack that has grown stays so.
//
//	Accept ──▶ Conn ──▶ Serve ──message, ping, quiet──▶ Handler
//	             └────── Write, Close, Abort (from any goroutine)
//
// and, for answers over HTTP/1.1 that never end,
//
//	TakeOver ──▶ Conn ──▶ Watch ──quiet──▶
//	               └────── Send, Abort (from any goroutine)
//
// Accept takes the connection from net/http and keeps neither its request nor its
// buffers; call Serve in a goroutine of its own and let the HTTP handler return,
// or net/http's goroutine and buffers stay for as long as the connection does.
// While nothing comes in, a Conn holds 64 bytes to read into; messages are put
// together in buffers that all connections share.
//
// # Failure
//
//   - The client says nothing: after PingInterval it is pinged; without any sign of
//     life within WriteTimeout after that, Serve ends.
//   - The client stops in the middle of a message: it is closed (1008) after
//     WriteTimeout, counted from the message's beginning, whatever else it sends.
//   - The client sends more frames than Rate and Burst allow, pings included: it is
//     closed (1008).
//   - The client does not read: a Write that takes longer than WriteTimeout ends
//     the connection.
//   - Close waits, in Serve, for the client to confirm, at most CloseTimeout.
//
// The package knows nothing of presence and imports nothing of ours, as a driver
// from elsewhere would not; so two rooms may use it. Frames are read and checked
// by github.com/gobwas/ws. Extensions (compression) are not offered: a compressor
// costs more memory per connection than all the rest.
package socket
