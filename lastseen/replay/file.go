package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

const (
	// partial is the suffix of a file that is being written.
	partial = ".partial"
	// syncBytes is after how many bytes a file is synced, so that Commit does not take seconds.
	syncBytes = 64 << 20
)

// File is a file that takes its name when it is complete. One goroutine may use it, and must end it
// by Commit or Abandon.
type File struct {
	name     string
	file     *os.File
	buffer   *bufio.Writer // it remembers the first error
	unsynced int
	size     int64 // that was written
	syncs    errgroup.Group
}

// Create opens the file name for writing, under another name until Commit. A link is kept, and its file written.
func Create(name string) (*File, error) {
	name, err := replaceable(name)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name+partial, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	f := &File{name: name, file: file, buffer: bufio.NewWriterSize(file, 64<<10)}
	f.syncs.SetLimit(1)
	return f, nil
}

// replaceable is the file that the name leads to. Commit would put a file in the place of a device or a pipe.
func replaceable(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is a device, a pipe or a folder, and must be a file", name)
	}
	return filepath.EvalSymlinks(name)
}

func (f *File) Write(p []byte) (int, error) {
	n, err := f.buffer.Write(p)
	f.size += int64(n)
	if f.unsynced += n; f.unsynced >= syncBytes && f.syncs.TryGo(f.file.Sync) {
		f.unsynced = 0
	}
	return n, err
}

// Commit makes what was written durable and gives the file its name.
func (f *File) Commit() error {
	err := errors.Join(f.buffer.Flush(), f.syncs.Wait(), f.file.Sync(), f.file.Close())
	if err == nil {
		err = os.Rename(f.name+partial, f.name)
	}
	if err != nil {
		return fmt.Errorf("completing %s: %w", f.name, err)
	}
	return nil
}

// Abandon closes the file and leaves it under its other name.
func (f *File) Abandon() error {
	return errors.Join(f.buffer.Flush(), f.syncs.Wait(), f.file.Close())
}
