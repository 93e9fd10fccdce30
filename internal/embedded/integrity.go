package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// fault is damage to a file of a data directory.
type fault struct {
	file, what string
	repair     func() error // keeps the intact data
}

// ErrCorrupt reports a damaged data directory.
var ErrCorrupt = errors.New("is damaged")

// checkDir checks every file of the data directory before kfake reads it. The error is one line
// that names the first damaged file. With accept it keeps the intact data and logs each file; it
// renames damaged files to *.damaged. A write that a kill has cut off is no damage.
func checkDir(dir string, accept bool, log *slog.Logger) error {
	faults, err := findFaults(dir)
	if err != nil {
		return fmt.Errorf("checking the data directory %s: %w", dir, err)
	}
	if len(faults) > 0 && !accept {
		more := ""
		if n := len(faults) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more faults)", n)
		}
		return fmt.Errorf("%s %w: %s%s; "+
			"put a copy of the data directory in its place, or start with the intact data by --accept-data-loss",
			faults[0].file, ErrCorrupt, faults[0].what, more)
	}
	for _, f := range faults {
		if err := f.repair(); err != nil {
			return fmt.Errorf("repairing %s: %w", f.file, err)
		}
		if log != nil {
			log.Warn("data is lost: a file of the Kafka stand-in was damaged, and the intact rest of it is used", "file",
				f.file, "fault", f.what)
		}
	}
	return nil
}

func findFaults(dir string) ([]fault, error) {
	faults, ends, err := checkSums(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"pids.log", "groups.log"} {
		f, err := checkEntries(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		faults = append(faults, f...)
	}
	partitions, err := os.ReadDir(filepath.Join(dir, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range partitions {
		if !p.IsDir() {
			continue
		}
		f, err := checkPartition(filepath.Join(dir, "partitions", p.Name()), ends[p.Name()])
		if err != nil {
			return nil, err
		}
		faults = append(faults, f...)
	}
	return faults, nil
}

// keepDamaged renames a damaged file; a missing file is no error.
func keepDamaged(file string) error {
	if err := os.Rename(file, file+".damaged"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// An entry of a log is framed: length (4), checksum (4), then version and data, to which both
// refer.
const entryHead = 8

// entryAt is the entry at the start of raw; nil if it is not intact.
func entryAt(raw []byte) []byte {
	if len(raw) < entryHead+2 {
		return nil
	}
	n := int64(binary.LittleEndian.Uint32(raw))
	if n < 2 || entryHead+n > int64(len(raw)) ||
		crc32.Checksum(raw[entryHead:entryHead+n], castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil
	}
	return raw[:entryHead+n]
}

// checkEntries checks a log of entries. An incomplete entry at the end was cut off by a kill.
func checkEntries(file string) ([]fault, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var intact bytes.Buffer
	what := ""
	for pos := 0; pos < len(raw); {
		if e := entryAt(raw[pos:]); e != nil {
			intact.Write(e)
			pos += len(e)
			continue
		}
		next := pos + 1
		for next < len(raw) && entryAt(raw[next:]) == nil {
			next++
		}
		if what == "" && (next < len(raw) || !entryCutOff(raw[pos:])) {
			what = fmt.Sprintf("the entry at byte %d is damaged", pos)
		}
		pos = next
	}
	if what == "" {
		if intact.Len() < len(raw) { // otherwise kfake would append what it cannot read again
			err = os.Truncate(file, int64(intact.Len()))
		}
		return nil, err
	}
	return []fault{{file, what, func() error {
		return errors.Join(keepDamaged(file), os.WriteFile(file, intact.Bytes(), 0o644))
	}}}, nil
}

// entryCutOff reports whether rest is the start of a longer entry, and not a complete one with a
// damaged length.
func entryCutOff(rest []byte) bool {
	if len(rest) < entryHead+2 {
		return true
	}
	n := int64(binary.LittleEndian.Uint32(rest))
	return n >= 2 && entryHead+n > int64(len(rest)) &&
		crc32.Checksum(rest[entryHead:], castagnoli) != binary.LittleEndian.Uint32(rest[4:])
}
