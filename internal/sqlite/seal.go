package sqlite

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// SQLite has no checksums of its own outside of the write-ahead log: a bit that flips within
// a value breaks no rule of the file, and no check of SQLite's finds it. So a file that is
// closed in good order is sealed: a checksum of all of it is kept beside it, with its size and
// the time at which it was last written. Whoever writes to the file later moves that time, so
// that the seal tells nothing any more, and is no false alarm.
const sealSuffix = ".sum"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal keeps a checksum of a database that nobody has open. Where somebody has, or there is
// none, it does nothing.
func Seal(path string) error {
	seal, err := sealOf(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && seal == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	text := fmt.Sprintf("%s %08x\n", seal, crc32.Checksum([]byte(seal), castagnoli))
	next := path + sealSuffix + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	if err := os.Rename(next, path+sealSuffix); err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	return nil
}

// checkSeal tells what is wrong with a database that was sealed and that nobody has written to
// since; empty: nothing, or there is no seal that tells.
func checkSeal(path string) (fault string, err error) {
	text, err := os.ReadFile(path + sealSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var size, written int64
	var sum, own uint32
	if n, _ := fmt.Sscanf(string(text), "%d %d %08x %08x\n", &size, &written, &sum, &own); n != 4 ||
		crc32.Checksum(fmt.Appendf(nil, "%d %d %08x", size, written, sum), castagnoli) != own {
		return "", nil // the seal itself is damaged: it tells nothing
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != size || info.ModTime().UnixNano() != written {
		return "", err
	}
	now, err := sealOf(path)
	if err != nil || now == "" || now == fmt.Sprintf("%d %d %08x", size, written, sum) {
		return "", err
	}
	return "its checksum is not the one that it had when it was closed, though nobody has written to it", nil
}

// unseal comes before a database is written to.
func unseal(path string) error {
	if err := os.Remove(path + sealSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sealOf is size, time and checksum; empty where there is a write-ahead log with something
// in it, or somebody writes.
func sealOf(path string) (string, error) {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return "", nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // was only read
	before, err := file.Stat()
	if err != nil {
		return "", err
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	after, err := file.Stat()
	if err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return "", err
	}
	return fmt.Sprintf("%d %d %08x", before.Size(), before.ModTime().UnixNano(), sum.Sum32()), nil
}
