// Package socketgate is the WebSocket endpoint: GET /presence/connect.
//
// An open socket is an online device: new WebSocket(url) is enough. The server pings, and the client's answer, which
// browsers give by themselves, is proof of life. The person uses the device, unless a beat says that it was not touched
// for longer than a heartbeat interval. A ping frame is a beat, and so is a text or binary message of at most one byte,
// whatever the byte is; by that the person last touched the device when the socket opened. So is
//
//	{"type":"activity","idle_ms":60000}
//
// which states how long ago the person last touched the device. A ping does not change that
// instant.
//
// A socket ends in one of these ways:
//
//	the client closes it with 1000, 1001 or no code  the device has left: a bye
//	the client sends {"type":"bye"}                  the same; the socket stays, and a later beat brings
//	                                                 the device back
//	it is lost, or breaks a rule                     no bye: as if the device had beaten when it was heard last
//	this process stops                               no bye: the client gets a time to reconnect, then a
//	                                                 close with 1001
//
// A bye does not count while another socket of the same device is open in this process: a reloaded
// page may open its new socket before it closes the old one.
//
// {"type":"token","token":"…"} is another token of the same caller: the socket then ends with that one.
// Messages of other types go to the stream (subscriptions and deliveries, in package fanout/live);
// ?deliveries=true is the same as a message that asks for them. A type that
// neither knows is answered with {"type":"error",…}, and the socket stays open. Beats need no
// answer from Kafka: see package beat.
//
// Close codes sent: 1001 this process stops; 1013 too many devices, try again later; 1008 more than
// 50 messages a second (200 at once, pings count), or a message that was not complete after 10 s;
// 1009 a message far beyond the limit; 4401 the token has ended;
// 4429 its beats were over the tenant's quota for too long.
package socketgate
