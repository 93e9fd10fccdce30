package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dirLock keeps other processes away from a data directory, as long as this
// process lives: it goes with the process, however that ends.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the Kafka stand-in cannot make the data directory %s: %w", dir, bare(err))
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("the Kafka stand-in cannot read the data directory %s: %w", dir, bare(err))
	}
	file, err := os.OpenFile(filepath.Join(dir, "stillhere.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the Kafka stand-in cannot write to the data directory %s: %w", dir, bare(err))
	}
	if err := flock(file); err != nil {
		_ = file.Close() // the other fault is the one to tell
		return nil, fmt.Errorf("the data directory %s is in use by another process; stop it or choose another directory", dir)
	}
	return &dirLock{file}, nil
}

// release may be called on nil.
func (l *dirLock) release() {
	if l != nil {
		_ = l.file.Close() // the lock goes with it, whatever it says
	}
}

// bare drops the path that the caller names already.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
