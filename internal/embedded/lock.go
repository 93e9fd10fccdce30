package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dirLock keeps other processes out of a data directory. It ends with the process, also after
// kill -9.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the Kafka stand-in cannot create the data directory %s: %w", dir, bare(err))
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("the Kafka stand-in cannot read the data directory %s: %w", dir, bare(err))
	}
	file, err := os.OpenFile(filepath.Join(dir, "stillhere.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the Kafka stand-in cannot write to the data directory %s: %w", dir, bare(err))
	}
	if err := flock(file); err != nil {
		_ = file.Close() // the lock is the fault to report
		return nil, fmt.Errorf("the data directory %s is in use by another process; stop it or choose another directory", dir)
	}
	return &dirLock{file}, nil
}

// release may be called on nil. It unlocks before it closes: a child that another goroutine starts
// holds a copy of the file until it executes, and a lock lasts as long as any copy is open.
func (l *dirLock) release() {
	if l != nil {
		_ = errors.Join(funlock(l.file), l.file.Close()) // nothing is left to do if either fails
	}
}

// bare removes the path, which the caller names already.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
