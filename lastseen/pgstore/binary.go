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
	boolOID        = 16
	int8OID        = 20
	int2OID        = 21
	textOID        = 25
	timestamptzOID = 1184
)

const (
	copyHead     = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00" // signature, no flags, no extension
	null         = 0xffffffff                                             // the length of NULL
	postgresZero = 946_684_800_000                                        // 2000-01-01 in Unix milliseconds
)

// logCopySQL takes what appendCopy writes.
const logCopySQL = `COPY status_changes (user_id, at, version, device_id, last_seen_at, last_active_at, from_state, to_state,
	cause, visibility, device_kinds, event_id, policy_id, left_out) FROM STDIN (FORMAT binary)`

const logFields = 14

// appendCopy appends the changes as COPY's binary format.
func appendCopy(b []byte, changes []*schemas.Transition) []byte {
	b = append(b, copyHead...)
	for _, t := range changes {
		b = append(b, 0, logFields)
		b = appendInt8(b, int64(t.User))
		b = appendInstant(b, t.At)
		b = appendInt8(b, int64(t.Version))
		b = appendKnown(b, int64(t.Device))
		b = appendTime(b, t.LastSeen)
		b = appendTime(b, t.LastActive)
		b = appendText(b, schemas.StateWord(t.From))
		b = appendText(b, schemas.StateWord(t.To))
		b = appendText(b, schemas.CauseWord(t.Cause))
		b = appendText(b, schemas.VisibilityWord(t.Visibility))
		b = appendInt2(b, int16(t.Kinds))
		b = binary.BigEndian.AppendUint32(b, eventIDLength)
		b = t.EventID().Append(b)
		b = appendText(b, t.Policy)
		b = appendInt8(b, int64(t.LeftOut))
	}
	return append(b, 0xff, 0xff)
}

const eventIDLength = 27

// usersArrays are the parameters of upsert_users.sql in binary.
func usersArrays(updates []store.Update) [][]byte {
	column := func(oid uint32, value func(b []byte, u *store.Update) []byte) []byte {
		b := appendArrayHead(make([]byte, 0, arrayHead+12*len(updates)), oid, len(updates))
		for i := range updates {
			b = value(b, &updates[i])
		}
		return b
	}
	return [][]byte{
		column(int8OID, func(b []byte, u *store.Update) []byte { return appendInt8(b, int64(u.User)) }),
		column(textOID, func(b []byte, u *store.Update) []byte { return appendText(b, schemas.StateWord(u.State)) }),
		column(timestamptzOID, func(b []byte, u *store.Update) []byte { return appendInstant(b, u.Since) }),
		column(timestamptzOID, func(b []byte, u *store.Update) []byte { return appendTime(b, u.LastSeen) }),
		column(timestamptzOID, func(b []byte, u *store.Update) []byte { return appendTime(b, u.LastActive) }),
		column(int2OID, func(b []byte, u *store.Update) []byte { return appendInt2(b, int16(u.Kinds)) }),
		column(textOID, func(b []byte, u *store.Update) []byte { return appendText(b, schemas.VisibilityWord(u.Visibility)) }),
		column(int8OID, func(b []byte, u *store.Update) []byte { return appendInt8(b, int64(u.Version)) }),
		column(int8OID, func(b []byte, u *store.Update) []byte { return appendInt8(b, int64(u.Hidden)) }),
		column(boolOID, func(b []byte, u *store.Update) []byte { return appendBool(b, u.SinceKnown) }),
		column(boolOID, func(b []byte, u *store.Update) []byte { return appendBool(b, u.HiddenKnown) }),
	}
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

// appendInstant is the instant in microseconds since 2000.
func appendInstant(b []byte, m schemas.Millis) []byte {
	return appendInt8(b, (int64(m)-postgresZero)*1000)
}

func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

func appendBool(b []byte, yes bool) []byte {
	if yes {
		return append(b, 0, 0, 0, 1, 1)
	}
	return append(b, 0, 0, 0, 1, 0)
}
