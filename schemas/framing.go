package schemas

import "encoding/binary"

// Unframed removes the header that clients of a Schema Registry put before a Protobuf message
// (Confluent's wire format): a zero byte, the schema's id as 4 bytes big-endian, and the path of
// the message in its file as zigzag varints after their count; a single 0 stands for the first
// message. It returns a value without such a header unchanged: no Protobuf message begins with a
// zero byte, because there is no field 0. Every error is a *FieldError.
func Unframed(value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] != 0 {
		return value, nil
	}
	const head = 5
	if len(value) <= head {
		return nil, badFraming()
	}
	rest := value[head:]
	count, n := binary.Varint(rest)
	if n <= 0 || count < 0 {
		return nil, badFraming()
	}
	rest = rest[n:]
	for range min(count, int64(len(rest))+1) {
		if _, n = binary.Varint(rest); n <= 0 {
			return nil, badFraming()
		}
		rest = rest[n:]
	}
	if len(rest) > 0 && rest[0] == 0 {
		return nil, badFraming()
	}
	return rest, nil
}

func badFraming() error {
	return &FieldError{Code: "malformed", Field: "framing",
		Reason: "begins with a zero byte, but not with the head of a Schema Registry's client"}
}
