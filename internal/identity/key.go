package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/dchest/siphash"
)

// Key is the identity key of a pipeline.
type Key [16]byte

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails
	return k
}

// ParseKey reads 32 hexadecimal digits. Space around them is ignored.
func ParseKey(text string) (Key, error) {
	var k Key
	raw, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != len(k) {
		return Key{}, fmt.Errorf("must be 32 hexadecimal digits (16 bytes), as `stillhere keys identity` prints them")
	}
	return Key(raw), nil
}

// Hex is what ParseKey reads. It is a secret.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// String hides the key, so that no log holds it.
func (k Key) String() string { return "identity key with fingerprint " + k.Fingerprint() }

// Fingerprint names the key without revealing it: the first 8 bytes, in hexadecimal, of the SHA-256
// of "stillhere identity key" and the key. The pipeline stores it.
func (k Key) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("stillhere identity key"), k[:]...))
	return hex.EncodeToString(sum[:8])
}

func (k Key) hash(text []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:]), text)
}
