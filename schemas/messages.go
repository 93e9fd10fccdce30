package schemas

import (
	"strconv"

	"google.golang.org/protobuf/proto"
)

const (
	// messageVersion is the version of the messages besides Frame.
	messageVersion = 1
	// maxMillis is the last instant that RFC 3339 can write.
	maxMillis   = 253_402_300_799_999
	millisRange = "must be in the years 1970 to 9999"
)

// encode cannot fail on messages without required fields and with valid UTF-8.
func encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func decode(what string, value []byte, m proto.Message, version func() uint32) error {
	value, err := Unframed(value)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(value, m); err != nil {
		return &FieldError{Code: "malformed", Field: what, Reason: "is not Protobuf: " + err.Error()}
	}
	return supported(version())
}

// supported refuses messages of another version.
func supported(version uint32) error {
	if version == messageVersion {
		return nil
	}
	return unsupported("schema", version)
}

func unsupported(field string, version uint32) error {
	return &FieldError{Code: "unsupported_version", Field: field,
		Reason: "is " + strconv.FormatUint(uint64(version), 10) + ", this program reads version 1"}
}
