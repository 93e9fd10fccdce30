// Package socket is the server's end of a WebSocket (RFC 6455). An idle connection costs a few
// kilobytes, most of it the stack of the one goroutine that waits for the client. Messages are
// handled by another, short-lived goroutine: a stack that has grown would keep its size.
//
//	Accept ──▶ Conn ──▶ Serve ──message, ping, quiet──▶ Handler
//	             └────── Write, Close, Abort (from any goroutine)
//
// For answers over HTTP/1.1 that never end:
//
//	TakeOver ──▶ Conn ──▶ Watch ──quiet──▶
//	               └────── Send, Abort (from any goroutine)
//
// Accept takes the connection over from net/http and keeps neither its request nor its buffers.
// Call Serve in a goroutine of its own and return from the HTTP handler; otherwise net/http's
// goroutine and buffers remain for as long as the connection does. While nothing comes in, a Conn
// has a read buffer of 64 bytes. All connections share the buffers in which messages are assembled.
//
// # Failure
//
//   - A silent client is pinged after PingInterval. If nothing arrives within WriteTimeout after
//     that, Serve ends.
//   - A client that stops in the middle of a message is closed (1008) WriteTimeout after the
//     message's beginning, whatever else it sends.
//   - A client that sends more frames than Rate and Burst allow, pings included, is closed (1008).
//   - If the client does not read, a Write that takes longer than WriteTimeout ends the connection.
//   - Close makes Serve wait for the client's confirmation, at most CloseTimeout.
//
// The package knows nothing of presence and imports no package of this module, so several services
// may use it. github.com/gobwas/ws reads and checks frames. Extensions (compression) are not
// offered: a compressor costs more memory per connection than all the rest.
package socket
