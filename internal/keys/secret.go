package keys

import (
	"fmt"
	"strings"
)

// Secret is a password or token: a value, or a file to read it from.
type Secret struct {
	Value string
	// File is read at each use, without its last line break.
	File string
}

// Given reports whether the secret is set.
func (s Secret) Given() bool { return s.Value != "" || s.File != "" }

// Read is the current secret.
func (s Secret) Read() (string, error) {
	if s.File == "" {
		return s.Value, nil
	}
	text, err := ReadFile(s.File)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", fmt.Errorf("reading a secret: %s is empty", s.File)
	}
	return value, nil
}

// String does not reveal the secret, so no log line can.
func (s Secret) String() string {
	switch {
	case s.File != "":
		return "file " + s.File
	case s.Value != "":
		return "(hidden)"
	}
	return ""
}
