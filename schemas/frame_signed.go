package schemas

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of the fields by which a frame is signed, in bytes.
const (
	MaxKeyID = 512
	MACSize  = 16
)

// macTag begins the field mac, which ends a signed frame.
var macTag = append(protowire.AppendTag(nil, fieldMAC, protowire.BytesType), MACSize)

const macField = 3 + MACSize

var errMisplacedMAC = Invalid("mac", "must be 16 bytes and the last field, with its tag in 2 bytes and its length in 1")

// beforeMAC is value without its last field, which has to be mac; nil: it is not.
func beforeMAC(value, mac []byte) []byte {
	signed, ok := bytes.CutSuffix(value, append(bytes.Clone(macTag), mac...))
	if !ok || len(mac) != MACSize {
		return nil
	}
	for rest := signed; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		if n < 0 || number == fieldMAC && kind == protowire.BytesType {
			return nil
		}
		rest = rest[n:]
	}
	return signed
}

// checkSigned holds the fields about the frame's writer to the rules of frame.proto.
func (f *Frame) checkSigned() error {
	switch {
	case len(f.KeyID) > MaxKeyID:
		return Invalid("key_id", "must have at most 512 bytes")
	case len(f.KeyID) > 0 != (len(f.MAC) > 0):
		return Invalid("mac", "goes with key_id")
	case len(f.KeyID) > 0 != (f.SealedAt != 0):
		return Invalid("sealed_at_ms", "goes with key_id")
	case f.SealedAt < 0 || f.SealedAt > maxMillis:
		return Invalid("sealed_at_ms", millisRange)
	}
	return nil
}

// AppendSeal appends the key of a frame that was encoded to dst, and when it is signed. AppendMAC comes next, and last.
func AppendSeal(dst []byte, key string, at Millis) []byte {
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldKeyID, protowire.BytesType), key)
	return appendVarint(dst, fieldSealedAt, uint64(at))
}

// AppendMAC ends a frame with the first 16 bytes of the HMAC of all that dst holds of it.
func AppendMAC(dst []byte, mac []byte) []byte {
	return append(append(dst, macTag...), mac[:MACSize]...)
}
