// Package schemas holds the wire: ids, times, messages and topics. What two services
// must agree on is here; what only one of them needs is in that service.
//
// # Flow
//
// A message is a Go struct with an encoding. A writer calls its Encode (or AppendFrame)
// and puts the bytes in an Outgoing. A reader gets a Record and calls the message's
// decoder. README.md lists the messages with their topics, keys and guarantees.
//
//	ingest ──Frame──▶ heartbeats ──▶ detector ──Transition──▶ transitions ──▶ lastseen, fanout
//	                                     └─────Status──────▶ status ──▶ detector (restore)
//
// # Frames
//
// Millions of beats a second arrive in frames, so Frame has a hand-written decoder:
// Decode checks a frame completely, once, and keeps pointers into its bytes; a Cursor
// walks the rows. Neither allocates. Encodings that Protobuf permits but no writer
// normally uses are first rewritten by the generated code. A fuzz test holds both ways
// equal.
//
// # Failure
//
// A decoder either accepts a message completely or returns a *FieldError that names the
// field. Such a record can never be decoded: IsInvalid tells the Kafka loop, which sends
// it to the dead-letter topic. An unknown version is such an error too, and is reported
// before anything else in the message. Unknown fields are ignored; unknown device kinds
// are read as Other. Encoders do not check: the caller is responsible for the message.
//
// The package imports no client and no other package of this module, and starts no
// goroutines.
package schemas
