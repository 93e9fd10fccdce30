// Package socketgate is the door in by WebSocket: GET /presence/connect.
//
// A socket is a device that is here. Connecting is its first beat; a ping frame
// or an empty message is a beat; so is
//
//	{"type":"activity","idle_ms":60000}
//
// which also says how long ago the person last touched the device. A ping carries
// no idleness: the last word on it goes on growing older.
//
// A socket ends in one of these ways:
//
//	the client closes it with 1000, 1001 or no code  the device has left: a bye
//	the client says {"type":"bye"}                   the same; the socket stays, and a later beat brings the device back
//	it is lost, or times out, or breaks a rule       no bye: the detector waits for the device to come back
//	this process stops                               no bye: the client is told when to connect again, then closed with 1001
//
// A bye does not count while another socket of the same device is alive here: a
// page that is loaded again may open its new socket before it closes the old.
//
// What this door does not know it offers to the stream (subscriptions, in another
// room); what neither knows is answered with {"type":"error",…} and the socket
// goes on. Beats need no answer from Kafka: see package client.
//
// Close codes sent: 1001 this process stops; 1013 too many devices, try again
// later; 1008 more than 50 messages a second (200 at once, pings count), or a message
// that was not complete after 10 s; 1009 a message beyond all measure; 4408 nothing
// was heard for too long.
package socketgate
