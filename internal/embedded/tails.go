package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// kfake leaves out what a kill cut off at the end of a file, but appends after it what it cannot read
// again. mendTails removes such ends before kfake reads the directory.
func mendTails(dir string) error {
	for _, name := range []string{"pids.log", "groups.log"} {
		file := filepath.Join(dir, name)
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = cut(file, raw, wholeEntries(raw))
		}
		if err != nil {
			return err
		}
	}
	partitions, err := os.ReadDir(filepath.Join(dir, "partitions"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, p := range partitions {
		err = errors.Join(err, mendPartition(filepath.Join(dir, "partitions", p.Name())))
	}
	return err
}

// mendPartition mends the last segment, which is the only one that kfake appends to. Segments are called
// after their first offset.
func mendPartition(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	last := int64(-1)
	for _, e := range entries {
		if name, found := strings.CutSuffix(e.Name(), ".dat"); found {
			if base, err := strconv.ParseInt(name, 10, 64); err == nil {
				last = max(last, base)
			}
		}
	}
	if last < 0 {
		return nil
	}
	return mendSegment(filepath.Join(dir, strconv.FormatInt(last, 10)+".dat"))
}

func cut(file string, raw []byte, size int) error {
	if size == len(raw) {
		return nil
	}
	return os.Truncate(file, int64(size))
}

// entryHead is what an entry of a log begins with: length (4) and checksum (4) of what follows.
const entryHead = 8

// wholeEntries is the length of the entries in raw that kfake reads.
func wholeEntries(raw []byte) (size int) {
	for {
		rest := raw[size:]
		if len(rest) < entryHead+2 {
			return size
		}
		n := int64(binary.LittleEndian.Uint32(rest))
		if n < 2 || entryHead+n > int64(len(rest)) ||
			crc32.Checksum(rest[entryHead:entryHead+n], castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
			return size
		}
		size += entryHead + int(n)
	}
}

// indexEntry is the size of an entry of a segment's index (*.idx), which has one for each record batch of
// the segment (*.dat). kfake writes it after the batch.
const indexEntry = 15

// mendSegment cuts a segment after its last whole record batch, and gives each batch its entry of the
// index: kfake would write the next entries in the place of missing ones.
func mendSegment(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	index := strings.TrimSuffix(file, ".dat") + ".idx"
	entries, err := os.ReadFile(index)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	had := len(entries)
	entries = entries[:had/indexEntry*indexEntry]
	size, batches := 0, 0
	for {
		batch := wholeBatch(raw[size:])
		if batch == nil {
			break
		}
		size += len(batch)
		if batches++; len(entries) < batches*indexEntry {
			entries = append(entries, entryFor(batch)...)
		}
	}
	if err := cut(file, raw, size); err != nil {
		return err
	}
	if entries = entries[:batches*indexEntry]; len(entries) == had {
		return nil
	}
	return os.WriteFile(index, entries, 0o644)
}

// wholeBatch is the record batch at the start of raw; nil if kfake does not read it.
func wholeBatch(raw []byte) []byte {
	if len(raw) < batchHeaderSize {
		return nil
	}
	size := int64(binary.BigEndian.Uint32(raw[batchLengthAt:])) + batchLengthAt + 4
	if size < batchHeaderSize || size > int64(len(raw)) ||
		crc32.Checksum(raw[batchChecksummed:size], castagnoli) != binary.BigEndian.Uint32(raw[batchCRCAt:]) {
		return nil
	}
	return raw[:size]
}

// entryFor is the index's entry of a batch.
func entryFor(batch []byte) []byte {
	const epochAt, attributesAt, transactional, control = 12, 21, 0x10, 0x20
	e := make([]byte, indexEntry)
	e[0] = 1
	binary.LittleEndian.PutUint32(e[2:], binary.BigEndian.Uint32(batch[epochAt:]))
	if attributes := binary.BigEndian.Uint16(batch[attributesAt:]); attributes&transactional != 0 && attributes&control == 0 {
		e[14] = 1
	}
	e[1] = byte(crc32.Checksum(e[2:], castagnoli))
	return e
}
