package pgstore

import (
	"encoding/binary"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// This file writes values in Postgres's binary formats (its manual, "COPY", and the receive functions
// of its types). The driver does the same at several times the cost: one allocation and one codec
// lookup per value. Enumerations are sent as labels, so their numbers, which differ between databases,
// are not needed.

// Numbers of the built-in types, for the heads of arrays.
const (
	int8OID        = 20
	int2OID        = 21
	int4OID        = 23
	textOID        = 25
	timestamptzOID = 1184
)

const (
	copyHead     = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00" // signature, no flags, no extension
	null         = 0xffffffff                                             // the length of NULL
	postgresZero = 946_684_800_000                                        // 2000-01-01 in Unix milliseconds
)

// copyChangesSQL takes what appendCopy writes.
const copyChangesSQL = `COPY status_changes (user_id, at, version, device_id, last_seen_at, last_active_at, from_state, to_state,
	cause, visibility, device_kinds, event_id, policy_id, left_out, override) FROM STDIN (FORMAT binary)`

// column is a column of values R in Postgres's binary form.
type column[R any] struct {
	oid    uint32
	append func(b []byte, r R) []byte
}

// logColumns are those of copyChangesSQL and the parameters of append_carefully.sql.
var logColumns = []column[*schemas.Transition]{
	{int8OID, func(b []byte, t *schemas.Transition) []byte { return appendInt8(b, int64(t.User)) }},
	{timestamptzOID, func(b []byte, t *schemas.Transition) []byte { return appendInstant(b, t.At) }},
	{int8OID, func(b []byte, t *schemas.Transition) []byte { return appendInt8(b, int64(t.Version)) }},
	{int8OID, func(b []byte, t *schemas.Transition) []byte { return appendKnown(b, int64(t.Device)) }},
	{timestamptzOID, func(b []byte, t *schemas.Transition) []byte { return appendTime(b, t.LastSeen) }},
	{timestamptzOID, func(b []byte, t *schemas.Transition) []byte { return appendTime(b, t.LastActive) }},
	{textOID, func(b []byte, t *schemas.Transition) []byte { return appendText(b, schemas.StateWord(t.From)) }},
	{textOID, func(b []byte, t *schemas.Transition) []byte { return appendText(b, schemas.StateWord(t.To)) }},
	{textOID, func(b []byte, t *schemas.Transition) []byte { return appendText(b, schemas.CauseWord(t.Cause)) }},
	{textOID, func(b []byte, t *schemas.Transition) []byte {
		return appendText(b, schemas.VisibilityWord(t.Visibility))
	}},
	{int2OID, func(b []byte, t *schemas.Transition) []byte { return appendInt2(b, int16(t.Kinds)) }},
	{textOID, func(b []byte, t *schemas.Transition) []byte {
		return t.EventID().Append(binary.BigEndian.AppendUint32(b, eventIDLength))
	}},
	{textOID, func(b []byte, t *schemas.Transition) []byte { return appendText(b, t.Policy) }},
	{int8OID, func(b []byte, t *schemas.Transition) []byte { return appendInt8(b, int64(t.LeftOut)) }},
	{textOID, func(b []byte, t *schemas.Transition) []byte { return appendOverride(b, t.Override) }},
}

const eventIDLength = 27

// userColumns are the parameters of upsert_users.sql. What has few values is in one number: each
// array costs the server a pass over the batch.
var userColumns = []column[store.Update]{
	{int8OID, func(b []byte, u store.Update) []byte { return appendInt8(b, int64(u.User)) }},
	{int4OID, func(b []byte, u store.Update) []byte { return appendInt4(b, bitsOf(u)) }},
	{timestamptzOID, func(b []byte, u store.Update) []byte { return appendInstant(b, u.Since) }},
	{timestamptzOID, func(b []byte, u store.Update) []byte { return appendTime(b, u.LastSeen) }},
	{timestamptzOID, func(b []byte, u store.Update) []byte { return appendTime(b, u.LastActive) }},
	{int8OID, func(b []byte, u store.Update) []byte { return appendInt8(b, int64(u.Version)) }},
	{int8OID, func(b []byte, u store.Update) []byte { return appendInt8(b, int64(u.Hidden)) }},
	{textOID, func(b []byte, u store.Update) []byte { return appendOverride(b, u.Override) }},
}

// bitsOf has three flags, the state's number in five bits, so that the server refuses one that it has
// no word for, and the device kinds.
func bitsOf(u store.Update) uint32 {
	bits := uint32(u.State)&31<<3 | uint32(u.Kinds)<<8
	for i, set := range [...]bool{u.Visibility == schemas.Nobody, u.SinceKnown, u.HiddenKnown} {
		if set {
			bits |= 1 << i
		}
	}
	return bits
}

// appendCopy appends the changes as COPY's binary format.
func appendCopy(b []byte, changes []*schemas.Transition) []byte {
	b = append(b, copyHead...)
	for _, t := range changes {
		b = append(b, 0, byte(len(logColumns)))
		for _, c := range logColumns {
			b = c.append(b, t)
		}
	}
	return append(b, 0xff, 0xff)
}

// arrays makes an array of each column.
func arrays[R any](columns []column[R], rows []R) [][]byte {
	all := make([][]byte, len(columns))
	for i, c := range columns {
		b := appendArrayHead(make([]byte, 0, arrayHead+12*len(rows)), c.oid, len(rows))
		for _, row := range rows {
			b = c.append(b, row)
		}
		all[i] = b
	}
	return all
}

const arrayHead = 20

// appendArrayHead begins an array of one dimension, counted from 1, that may contain NULL.
func appendArrayHead(b []byte, oid uint32, length int) []byte {
	for _, word := range [...]uint32{1, 1, oid, uint32(length), 1} {
		b = binary.BigEndian.AppendUint32(b, word)
	}
	return b
}

func appendInt8(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(n))
}

func appendInt2(b []byte, n int16) []byte {
	return binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(n))
}

func appendInt4(b []byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), n)
}

// appendKnown is NULL for 0.
func appendKnown(b []byte, n int64) []byte {
	if n == 0 {
		return binary.BigEndian.AppendUint32(b, null)
	}
	return appendInt8(b, n)
}

// appendTime is NULL for 0.
func appendTime(b []byte, m schemas.Millis) []byte {
	if m == 0 {
		return binary.BigEndian.AppendUint32(b, null)
	}
	return appendInstant(b, m)
}

// appendOverride is NULL for none.
func appendOverride(b []byte, o schemas.Override) []byte {
	if o == (schemas.Override{}) {
		return binary.BigEndian.AppendUint32(b, null)
	}
	return appendText(b, o.Text())
}

// appendInstant is the instant in microseconds since 2000.
func appendInstant(b []byte, m schemas.Millis) []byte {
	return appendInt8(b, (int64(m)-postgresZero)*1000)
}

func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}
