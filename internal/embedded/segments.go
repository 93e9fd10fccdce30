package embedded

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A segment is a file of record batches (*.dat), one after another, beside an index of
// 15 bytes for each batch (*.idx), which kfake writes after the batch.
const (
	batchHead  = 61 // bytes of a record batch before its records
	indexEntry = 15
)

// batchAt is the record batch that begins at raw[0]; false when it is not whole.
func batchAt(raw []byte) (b batch, ok bool) {
	if len(raw) < batchHead || raw[16] != 2 {
		return b, false
	}
	size := int64(binary.BigEndian.Uint32(raw[8:])) + 12
	if size < batchHead || size > int64(len(raw)) || binary.BigEndian.Uint32(raw[17:]) != crc32.Checksum(raw[21:size], castagnoli) {
		return b, false
	}
	b = batch{raw: raw[:size], first: int64(binary.BigEndian.Uint64(raw)), epoch: binary.BigEndian.Uint32(raw[12:])}
	b.next = b.first + int64(binary.BigEndian.Uint32(raw[23:])) + 1
	return b, b.first >= 0 && b.next > b.first
}

// batch is one of a segment.
type batch struct {
	raw         []byte
	first, next int64 // its first offset, and that after its last
	epoch       uint32
}

// scanned is what a segment turned out to hold.
type scanned struct {
	file    string
	base    int64
	index   []byte
	batches []batch // whole ones, in the order of their offsets
	// lost is what is not whole before the end of the file, and the index's fault; empty
	// when there is none. An incomplete batch at the end that the index does not know is
	// no fault: a kill has cut it off, and nobody was told that it is there.
	lost, indexFault string
}

// scan reads a segment whose first offset must be expected. last says that no other
// follows it.
func scan(file string, expected int64, last bool) (scanned, error) {
	s := scanned{file: file}
	raw, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	s.index, err = os.ReadFile(strings.TrimSuffix(file, ".dat") + ".idx")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.base = expected
	for pos := 0; pos < len(raw); {
		b, whole := batchAt(raw[pos:])
		switch {
		case whole && b.first == expected:
			s.checkIndex(b)
			s.batches = append(s.batches, b)
			pos, expected = pos+len(b.raw), b.next
			continue
		case s.lost == "" && last && cutOff(raw[pos:]) && len(s.index)/indexEntry <= len(s.batches):
			return s, nil
		}
		if s.lost == "" {
			s.lost = fmt.Sprintf("the record batch at byte %d, offset %d, is damaged", pos, expected)
		}
		// What is whole after it begins somewhere.
		for pos++; pos+batchHead <= len(raw); pos++ {
			ahead := int64(binary.BigEndian.Uint64(raw[pos:])) - expected
			if ahead < 0 || ahead > math.MaxInt32 {
				continue
			}
			if _, whole := batchAt(raw[pos:]); whole {
				expected += ahead
				break
			}
		}
		if pos+batchHead > len(raw) {
			break
		}
	}
	if n := len(s.index) / indexEntry; n > len(s.batches) && s.lost == "" {
		s.lost = fmt.Sprintf("it ends at offset %d, and its index knows of %d more record batches", expected, n-len(s.batches))
	}
	return s, nil
}

// cutOff tells whether rest is the beginning of a record batch that goes on beyond it.
func cutOff(rest []byte) bool {
	return len(rest) < batchHead || int64(binary.BigEndian.Uint32(rest[8:]))+12 > int64(len(rest))
}

// checkIndex looks at the index's entry for the next batch, if there is one.
func (s *scanned) checkIndex(b batch) {
	at := len(s.batches) * indexEntry
	if s.indexFault != "" || s.lost != "" || at+indexEntry > len(s.index) {
		return
	}
	e := s.index[at : at+indexEntry]
	if e[0] != 1 || e[1] != byte(crc32.Checksum(e[2:], castagnoli)) || e[14] > 1 || binary.LittleEndian.Uint32(e[2:]) != b.epoch {
		// What the entry repeats of the batch's head has no checksum there.
		s.indexFault = fmt.Sprintf("the entry at byte %d, for offset %d, or what it repeats of %s, is damaged", at, b.first, s.file)
	}
}

// completeIndex writes the entries that a kill has kept from the index. kfake would put
// the next ones in their place.
func (s *scanned) completeIndex() error {
	n := min(len(s.index)/indexEntry, len(s.batches))
	if len(s.index) == len(s.batches)*indexEntry {
		return nil
	}
	index := slices.Clone(s.index[:n*indexEntry])
	for _, b := range s.batches[n:] {
		index = append(index, entryFor(b)...)
	}
	return os.WriteFile(strings.TrimSuffix(s.file, ".dat")+".idx", index, 0o644)
}

// checkPartition looks through the segments of one partition. end is where its log ended
// when it was last stopped in good order; 0 when that is not known.
func checkPartition(dir string, end int64) ([]fault, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, e := range entries {
		if name, found := strings.CutSuffix(e.Name(), ".dat"); found {
			if base, err := strconv.ParseInt(name, 10, 64); err == nil {
				bases = append(bases, base)
			}
		}
	}
	slices.Sort(bases)
	var faults []fault
	for i, base := range bases {
		last := i == len(bases)-1
		s, err := scan(filepath.Join(dir, strconv.FormatInt(base, 10)+".dat"), base, last)
		if err != nil {
			return nil, err
		}
		// What should be there: all up to the next segment, or to where an orderly stop
		// left the log.
		until := end
		if !last {
			until = bases[i+1]
		}
		at := base
		if n := len(s.batches); n > 0 {
			at = s.batches[n-1].next
		}
		if s.lost == "" && at < until {
			s.lost = fmt.Sprintf("it ends at offset %d, and should go on to %d", at, until)
		}
		mend := func() error { return s.mend(until) }
		switch {
		case s.lost != "":
			faults = append(faults, fault{s.file, s.lost, mend})
		case s.indexFault != "":
			faults = append(faults, fault{strings.TrimSuffix(s.file, ".dat") + ".idx", s.indexFault, mend})
		default:
			if err := s.completeIndex(); err != nil {
				return nil, err
			}
		}
	}
	return faults, nil
}

// snapshotEnd is where the log ended by the text of a snapshot.
func snapshotEnd(text []byte) int64 {
	var snapshot struct {
		HighWatermark int64 `json:"high_watermark"`
	}
	if json.Unmarshal(text, &snapshot) != nil {
		return 0
	}
	return snapshot.HighWatermark
}

// mend writes the segment anew with the batches that are whole, and empty ones in place
// of those that are lost, up to the offset until: offsets that somebody may have seen are
// not given out again. Without its snapshot kfake takes the partition up from the
// segments.
func (s *scanned) mend(until int64) error {
	var data, index bytes.Buffer
	expected, epoch := s.base, uint32(0)
	put := func(b batch, old []byte) {
		data.Write(b.raw)
		index.Write(old)
	}
	if len(s.batches) > 0 {
		epoch = s.batches[0].epoch
	}
	aligned := s.lost == "" && s.indexFault == ""
	for i, b := range s.batches {
		if b.first > expected {
			hole := emptyBatch(expected, b.first, epoch)
			put(hole, entryFor(hole))
		}
		entry := entryFor(b)
		if at := i * indexEntry; aligned && at+indexEntry <= len(s.index) {
			entry = s.index[at : at+indexEntry]
		}
		put(b, entry)
		expected, epoch = b.next, b.epoch
	}
	if expected < until {
		hole := emptyBatch(expected, until, epoch)
		put(hole, entryFor(hole))
	}
	dir := filepath.Dir(s.file)
	return errors.Join(setAside(s.file), setAside(filepath.Join(dir, "snapshot.json")),
		os.WriteFile(s.file, data.Bytes(), 0o644), os.WriteFile(strings.TrimSuffix(s.file, ".dat")+".idx", index.Bytes(), 0o644))
}

// entryFor is the index's entry of a batch.
func entryFor(b batch) []byte {
	e := make([]byte, indexEntry)
	e[0] = 1
	binary.LittleEndian.PutUint32(e[2:], b.epoch)
	const transactional, control = 0x10, 0x20
	if attributes := binary.BigEndian.Uint16(b.raw[21:]); attributes&transactional != 0 && attributes&control == 0 {
		e[14] = 1
	}
	e[1] = byte(crc32.Checksum(e[2:], castagnoli))
	return e
}

// emptyBatch is a record batch without records that stands for the offsets from first to
// before next, as compaction leaves them.
func emptyBatch(first, next int64, epoch uint32) batch {
	raw := make([]byte, batchHead)
	binary.BigEndian.PutUint64(raw, uint64(first))
	binary.BigEndian.PutUint32(raw[8:], batchHead-12)
	binary.BigEndian.PutUint32(raw[12:], epoch)
	raw[16] = 2
	binary.BigEndian.PutUint32(raw[23:], uint32(min(next-first-1, math.MaxInt32)))
	for _, at := range []int{43, 51, 53} { // no producer: its id (8 bytes), epoch (2) and sequence (4) are -1
		n := map[int]int{43: 8, 51: 2, 53: 4}[at]
		copy(raw[at:at+n], bytes.Repeat([]byte{0xff}, n))
	}
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return batch{raw: raw, first: first, next: next, epoch: epoch}
}
