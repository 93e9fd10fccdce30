package sqlite

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// SQLite has checksums only in the write-ahead log: a flipped bit within a value breaks no rule of the
// file, and no check of SQLite finds it. So a file that is closed properly is sealed: a checksum of the
// complete file is stored beside it, with its size and modification time. A later write changes that
// time, so the seal does not apply any more and raises no false alarm.
const sealSuffix = ".sum"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal stores a checksum of a database that nobody has open. If somebody has, or there is none, it does
// nothing.
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

// checkSeal returns the fault of a sealed database to which nobody has written since; empty: none, or no
// seal applies.
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
		return "", nil // the seal itself is damaged
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

// unseal removes the seal before the database is written to.
func unseal(path string) error {
	if err := os.Remove(path + sealSuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sealOf is size, time and checksum; empty if the write-ahead log has content, or somebody writes.
func sealOf(path string) (string, error) {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return "", nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
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
