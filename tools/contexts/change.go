package contexts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	lockSuffix = ".lock"               // of the empty file beside that of the contexts; it stays, since others may wait for it
	lockWait   = 5 * time.Second       // for other commands
	lockRetry  = 10 * time.Millisecond // between tries
)

// ErrBusy is the error of Change if another process holds the lock all the time.
var ErrBusy = errors.New("another command is changing the contexts; try again when it has ended")

// Change reads the file, changes it and writes it. Of processes and goroutines that do so at once each sees what the
// one before wrote. It waits up to 5 s for them, or until ctx ends. Nothing is written if change returns an error.
func Change(ctx context.Context, path string, change func(*File) error) (err error) {
	unlock, err := lock(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := Read(path)
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	return all.Write(path)
}

// lock locks the contexts of path.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("locking contexts: %w", err)
	}
	file, err := os.OpenFile(path+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking contexts: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, ErrBusy)
	defer cancel()
	for {
		locked, err := tryLock(file)
		if err != nil {
			return nil, fmt.Errorf("locking contexts: %w", errors.Join(err, file.Close()))
		}
		if locked {
			return file.Close, nil
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("locking %s: %w", path+lockSuffix, errors.Join(context.Cause(ctx), file.Close()))
		}
	}
}
