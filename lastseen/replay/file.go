package replay

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// partial is what the name of a file that is being written ends with.
const partial = ".partial"

// File is a file that takes its name when it is complete. Another goroutine writes
// to the disk, so that an error may be that of an earlier Write; Commit returns the last. One goroutine may use it, and must end it by
// Commit or Abandon.
type File struct {
	name   string
	file   *os.File
	writer *asyncWriter
}

// Create opens the file name for writing, under another name until Commit.
func Create(name string) (*File, error) {
	file, err := os.Create(name + partial)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return newFile(name, file), nil
}

func newFile(name string, file *os.File) *File {
	return &File{name: name, file: file, writer: startAsyncWriter(file)}
}

// Continue opens a file of lines to be written on after its first size bytes: the
// complete one, or the one that was left over by a process that was killed.
func Continue(name string, size int64, complete bool) (*File, error) {
	if complete {
		if err := copyFile(name, name+partial); err != nil {
			return nil, fmt.Errorf("going on with %s: %w", name, err)
		}
	}
	file, err := os.OpenFile(name+partial, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("going on with %s: %w", name, err)
	}
	err = file.Truncate(size)
	if err == nil {
		_, err = file.Seek(size, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("going on with %s: %w", name, err), file.Close())
	}
	return newFile(name, file), nil
}

// copyFile keeps the complete file until the longer one takes its place.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Write writes to the file; p may be used again when it returns.
func (f *File) Write(p []byte) (int, error) { return f.writer.write(p) }

// Commit makes what was written durable and gives the file its name.
func (f *File) Commit() error {
	err := errors.Join(f.writer.end(), f.file.Sync(), f.file.Close())
	if err == nil {
		err = os.Rename(f.name+partial, f.name)
	}
	if err != nil {
		return fmt.Errorf("completing %s: %w", f.name, err)
	}
	return nil
}

// Abandon closes the file and leaves what there is under its other name.
func (f *File) Abandon() error { return errors.Join(f.writer.end(), f.file.Close()) }
