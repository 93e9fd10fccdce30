package signing

import (
	"fmt"
	"os"
	"runtime"

	"github.com/stillhere/stillhere/internal/keys"
)

// ReadMasters reads a file of masters. It refuses a file that other accounts may read or write.
func ReadMasters(path string) ([]Master, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	all, err := ParseMasters(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// ReadGatewayKey reads a file with the key of a gateway. It refuses a file that other accounts may read or write.
func ReadGatewayKey(path string) (GatewayKey, error) {
	text, err := readSecret(path)
	if err != nil {
		return GatewayKey{}, err
	}
	key, err := ParseGatewayKey(text)
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// maxSecret bounds a file, in bytes.
const maxSecret = 16 << 10

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	// A group may read: that is how Kubernetes gives a secret to a process without root's rights.
	mode := info.Mode().Perm()
	switch {
	case runtime.GOOS != "windows" && mode&0o027 != 0:
		return "", fmt.Errorf("%s has mode %04o: other accounts must not read or write it (chmod 600 %[1]s)", path, mode)
	case info.Size() > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes, so it is no file of keys", path, maxSecret)
	}
	text, err := keys.ReadFile(path)
	return string(text), err
}
