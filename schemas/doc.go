// Package schemas holds the wire: ids, times, messages and topics that services agree on.
//
// # Flow
//
// A message is a Go struct with an encoding. A writer calls its Encode (or AppendFrame) and puts
// the bytes in an Outgoing. A reader gets a Record and calls the message's decoder. README.md
// lists the messages with their topics, keys and guarantees.
//
//	ingest ──Frame──▶ heartbeats ──▶ detector ──Transition──▶ transitions ──▶ lastseen, fanout
//	                                     └─────Status──────▶ status ──▶ detector (restore)
//
// # Frames
//
// Millions of beats a second arrive in frames, so Frame has a hand-written decoder: Decode checks
// a frame completely, once, and keeps pointers into its bytes; a Cursor reads the rows. Neither
// allocates. The generated code first rewrites encodings that Protobuf permits but no writer
// normally uses. A fuzz test holds both ways equal. Transitions and statuses are decoded the same
// way; each lists its fields once, for both directions (codec.go).
//
// # Failure
//
// A decoder either accepts a message completely or returns a *FieldError that names the field. It
// reports an unknown version before anything else. Such a record can never be decoded, so the
// Kafka loops send it to the dead-letter topic (IsInvalid). Decoders ignore unknown fields and
// read unknown device kinds as Other. Encoders do not check: the caller is responsible for the
// message.
//
// The package imports no client and no other package of this module, declares no interface and
// starts no goroutine.
package schemas
