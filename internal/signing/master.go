package signing

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Master is the secret from which the keys of a deployment are derived.
type Master [32]byte

// NewMaster returns a random master.
func NewMaster() Master {
	var m Master
	rand.Read(m[:]) // never fails
	return m
}

// Hex is what ParseMasters reads. It is a secret.
func (m Master) Hex() string { return hex.EncodeToString(m[:]) }

// String hides the master, so that no log holds it.
func (m Master) String() string { return "master with fingerprint " + m.Fingerprint() }

// Fingerprint names the master without revealing it.
func (m Master) Fingerprint() string {
	return hex.EncodeToString(m.hash("stillhere master")[:4])
}

func (m Master) hash(text string) []byte {
	mac := hmac.New(sha256.New, m[:])
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// derive is the key with the id, and of the gateway if it is a gateway's.
func (m Master) derive(id, gateway string) []byte {
	return m.hash("stillhere frame key v1\x00" + id + "\x00" + gateway)
}

// maxMasters bounds what a file holds: two while one is being replaced.
const maxMasters = 8

// ParseMasters reads one master a line, 64 hexadecimal digits each. Empty lines and lines that begin with #
// are ignored.
func ParseMasters(text string) ([]Master, error) {
	var all []Master
	known := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		raw, err := hex.DecodeString(line)
		if err != nil || len(raw) != len(Master{}) {
			return nil, fmt.Errorf("line %d must be 64 hexadecimal digits, as \"stillhere keys master\" prints them", i+1)
		}
		m := Master(raw)
		if known[m.Fingerprint()] {
			return nil, fmt.Errorf("line %d has the fingerprint %s of a line before it", i+1, m.Fingerprint())
		}
		known[m.Fingerprint()] = true
		all = append(all, m)
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("has no master: \"stillhere keys master\" prints one")
	case len(all) > maxMasters:
		return nil, fmt.Errorf("has %d masters, at most %d are allowed", len(all), maxMasters)
	}
	return all, nil
}
