// Package schemas is the ground on which all rooms stand: ids, times, messages
// and topics. What two rooms must agree on is here; what only one of them would
// miss is not.
//
// # Flow
//
// A message is a Go struct with an encoding. Who writes one calls its Encode (or
// AppendFrame) and puts the bytes in an Outgoing; who reads one gets a Record and
// calls its decoder. README.md lists the messages with their topics, keys and
// promises.
//
//	ingest ──Frame──▶ heartbeats ──▶ detector ──Transition──▶ transitions ──▶ lastseen, fanout
//	                                     └─────Status──────▶ status ──▶ detector (restore)
//
// # Frames
//
// Millions of beats a second come as frames, so Frame reads them by hand: Decode
// checks a frame whole, once, and keeps pointers into its bytes; a Cursor walks
// the rows. Neither allocates. Encodings that Protobuf permits but no writer
// normally uses are put in the usual form by the generated code first. A fuzz test
// holds both ways equal.
//
// # Failure
//
// Every decoder either accepts a message whole or returns a *FieldError that
// names the field: the record can never be understood, and IsInvalid says so to
// the Kafka loop, which sets it aside. A version that this program does not know
// is such an error, too, and says so before anything else in the message is
// judged. Unknown fields are ignored, unknown device kinds read as Other.
// Encoders do not check: who fills in a message answers for it.
//
// The package imports no client and nothing of ours, and starts no goroutines.
package schemas
