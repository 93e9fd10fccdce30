package schemas

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"time"
)

// UserID names a user: 1 to 2^63-1, a BIGINT in SQL.
type UserID int64

// DeviceID names one device of one user: 1 to 2^32-1.
type DeviceID uint32

// GatewayID names a gateway: at most MaxGatewayID bytes of UTF-8; empty for beats that came
// through no gateway.
type GatewayID string

// ConnectionID tells the connections of one device through one gateway apart; 0: none.
type ConnectionID uint32

// ConnectionOf is the id of the connection that is called text: its FNV-1a hash, or 1 where that is 0.
func ConnectionOf(text string) ConnectionID {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // a hash takes everything
	return max(1, ConnectionID(h.Sum32()))
}

// Millis is an instant in Unix milliseconds UTC, the one unit of time on the
// wire; 0 stands for never.
type Millis int64

// Limits of a frame; see proto/stillhere/v1/frame.proto.
const (
	MaxGatewayID = 128                           // bytes
	MaxFrameRows = 4000                          // keeps the ordinal of a Version in range
	MaxAge       = Millis(24 * time.Hour / 1e6)  // of a beat when its frame is sent
	MaxIdle      = Millis(720 * time.Hour / 1e6) // of the user
	userIDRange  = "must be between 1 and 9223372036854775807"
	devIDRange   = "must be between 1 and 4294967295"
	maxUserID    = math.MaxInt64
	maxDeviceID  = math.MaxUint32
	keyLength    = 8
	javaKeyRange = "must be 8 bytes, the user id big-endian"
)

// Valid reports whether id can name a user.
func (id UserID) Valid() bool { return id > 0 }

// Key is the Kafka key of all records about the user: 8 bytes big-endian, as
// Java's LongSerializer writes them.
func (id UserID) Key() []byte { return id.AppendKey(make([]byte, 0, keyLength)) }

// AppendKey appends Key to dst.
func (id UserID) AppendKey(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

func (id UserID) String() string { return strconv.FormatInt(int64(id), 10) }

// UserOfKey reads a Kafka key.
func UserOfKey(key []byte) (UserID, error) {
	if len(key) != keyLength {
		return 0, Invalid("key", javaKeyRange)
	}
	id := UserID(binary.BigEndian.Uint64(key))
	if !id.Valid() {
		return 0, Invalid("key", userIDRange)
	}
	return id, nil
}

// ParseUserID reads a user id in decimal; field names it in the error. An id has one spelling:
// no sign, no leading zeros.
func ParseUserID(field, text string) (UserID, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || !startsWithDigit(text) {
		return 0, invalidUser(field)
	}
	return UserID(n), nil
}

// ParseDeviceID reads a device id in decimal; field names it in the error.
func ParseDeviceID(field, text string) (DeviceID, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < 1 || !startsWithDigit(text) {
		return 0, invalidDevice(field)
	}
	return DeviceID(n), nil
}

// startsWithDigit reports whether text, which is not empty, begins with one of 1 to 9.
func startsWithDigit(text string) bool { return text[0] >= '1' && text[0] <= '9' }

// MillisOf converts t, dropping what is finer than a millisecond.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time converts to the standard library's type, in UTC; 0 becomes the zero time.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// rfc3339Millis is RFC 3339 with exactly three decimals, in UTC.
const rfc3339Millis = "2006-01-02T15:04:05.000Z"

func (m Millis) String() string {
	if m == 0 {
		return "never"
	}
	return m.Time().Format(rfc3339Millis)
}

// MarshalJSON writes RFC 3339 with milliseconds, or null for never.
func (m Millis) MarshalJSON() ([]byte, error) {
	if m == 0 {
		return []byte("null"), nil
	}
	return m.Time().AppendFormat(nil, `"`+rfc3339Millis+`"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Millis) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*m = 0
		return nil
	}
	t, err := time.Parse(`"`+time.RFC3339+`"`, string(text))
	if err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	*m = MillisOf(t)
	return nil
}
