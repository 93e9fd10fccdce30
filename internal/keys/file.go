package keys

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	othersWrite = 0o022 // the group, or everybody, may write
	worldWrites = 0o002
)

// ReadFile reads a file that decides who is let in: a secret, a private key, or the public keys that verify tokens. It
// refuses one that others than its owner may write or replace, as ssh does.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&othersWrite != 0 {
		return nil, fmt.Errorf("%s may be written by others than its owner (mode %04o): chmod go-w it, and replace what it holds if others can log in", path, info.Mode().Perm())
	}
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && dir.Mode().Perm()&worldWrites != 0 && dir.Mode()&os.ModeSticky == 0 {
		return nil, fmt.Errorf("%s may be replaced by everybody: its folder is writable by all (mode %04o)", path, dir.Mode().Perm())
	}
	return os.ReadFile(path)
}
