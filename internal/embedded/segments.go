package embedded

import (
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

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A segment is a file of record batches (*.dat), one after another, beside an index of
// 15 bytes for each batch (*.idx), which kfake writes after the batch.
const (
	batchHead  = 61 // bytes of a record batch before its records
	indexEntry = 15
)

// batchAt is the record batch at the start of raw; false if it is not intact.
func batchAt(raw []byte) (b batch, ok bool) {
	if len(raw) < batchHead || raw[16] != 2 {
		return b, false
	}
	size := int64(binary.BigEndian.Uint32(raw[8:])) + 12
	if size < batchHead || size > int64(len(raw)) ||
		binary.BigEndian.Uint32(raw[17:]) != crc32.Checksum(raw[21:size], castagnoli) {
		return b, false
	}
	b = batch{raw: raw[:size], first: int64(binary.BigEndian.Uint64(raw)), epoch: binary.BigEndian.Uint32(raw[12:])}
	b.next = b.first + int64(binary.BigEndian.Uint32(raw[23:])) + 1
	return b, b.first >= 0 && b.next > b.first
}

// batch is a record batch of a segment.
type batch struct {
	raw         []byte
	first, next int64 // its first offset, and the one after its last
	epoch       uint32
}

// scanned is the content of a segment.
type scanned struct {
	file    string
	base    int64
	index   []byte
	batches []batch // the intact ones, in the order of their offsets
	// lost describes damage to the segment, indexFault damage to its index. An incomplete batch
	// at the end that the index does not have is no fault: a kill has cut it off before it was
	// acknowledged.
	lost, indexFault string
}

// scan reads a segment that must start at offset expected. last means that no segment follows.
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
		b, intact := batchAt(raw[pos:])
		switch {
		case intact && b.first == expected:
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
		// Search for the next intact batch.
		for pos++; pos+batchHead <= len(raw); pos++ {
			ahead := int64(binary.BigEndian.Uint64(raw[pos:])) - expected
			if ahead < 0 || ahead > math.MaxInt32 {
				continue
			}
			if _, intact := batchAt(raw[pos:]); intact {
				expected += ahead
				break
			}
		}
		if pos+batchHead > len(raw) {
			break
		}
	}
	if n := len(s.index) / indexEntry; n > len(s.batches) && s.lost == "" {
		s.lost = fmt.Sprintf("it ends at offset %d, and its index knows of %d more record batches", expected,
			n-len(s.batches))
	}
	return s, nil
}

// cutOff reports whether rest is the start of a longer record batch.
func cutOff(rest []byte) bool {
	return len(rest) < batchHead || int64(binary.BigEndian.Uint32(rest[8:]))+12 > int64(len(rest))
}

// checkIndex checks the index's entry for the next batch, if there is one.
func (s *scanned) checkIndex(b batch) {
	at := len(s.batches) * indexEntry
	if s.indexFault != "" || s.lost != "" || at+indexEntry > len(s.index) {
		return
	}
	e := s.index[at : at+indexEntry]
	if e[0] != 1 || e[1] != byte(crc32.Checksum(e[2:], castagnoli)) || e[14] > 1 ||
		binary.LittleEndian.Uint32(e[2:]) != b.epoch {
		// The batch has no checksum for its epoch, which the entry repeats.
		s.indexFault = fmt.Sprintf("the entry at byte %d, for offset %d, or what it repeats of %s, is damaged", at, b.first,
			s.file)
	}
}

// completeIndex writes the entries that are missing after a kill. kfake would write the next ones
// in their place.
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

// checkPartition checks the segments of one partition. end is the end offset at the last orderly
// stop; 0 if it is unknown.
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
		// The segment must reach the next one, or the end of the log at the last orderly stop.
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
		repair := func() error { return s.repair(until) }
		switch {
		case s.lost != "":
			faults = append(faults, fault{s.file, s.lost, repair})
		case s.indexFault != "":
			faults = append(faults, fault{strings.TrimSuffix(s.file, ".dat") + ".idx", s.indexFault, repair})
		default:
			if err := s.completeIndex(); err != nil {
				return nil, err
			}
		}
	}
	return faults, nil
}

// snapshotEnd is the end offset of the log in a snapshot.
func snapshotEnd(text []byte) int64 {
	var snapshot struct {
		HighWatermark int64 `json:"high_watermark"`
	}
	if json.Unmarshal(text, &snapshot) != nil {
		return 0
	}
	return snapshot.HighWatermark
}

// repair rewrites the segment with its intact batches, and with empty ones for lost offsets up to
// until: offsets that a reader may have seen are not assigned again. Without its snapshot kfake
// loads the partition from the segments.
func (s *scanned) repair(until int64) error {
	var data, index []byte
	next, epoch := s.base, uint32(0)
	put := func(b batch) { data, index = append(data, b.raw...), append(index, entryFor(b)...) }
	if len(s.batches) > 0 {
		epoch = s.batches[0].epoch
	}
	for _, b := range s.batches {
		if b.first > next {
			put(emptyBatch(next, b.first, epoch))
		}
		put(b)
		next, epoch = b.next, b.epoch
	}
	if next < until {
		put(emptyBatch(next, until, epoch))
	}
	return errors.Join(keepDamaged(s.file), keepDamaged(filepath.Join(filepath.Dir(s.file), "snapshot.json")),
		os.WriteFile(s.file, data, 0o644), os.WriteFile(strings.TrimSuffix(s.file, ".dat")+".idx", index, 0o644))
}

// entryFor is the index entry of a batch.
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

// emptyBatch is a record batch without records for the offsets from first up to but without next,
// as compaction leaves them.
func emptyBatch(first, next int64, epoch uint32) batch {
	empty := kmsg.RecordBatch{
		FirstOffset: first, Length: batchHead - 12, PartitionLeaderEpoch: int32(epoch), Magic: 2,
		LastOffsetDelta: int32(min(next-first-1, math.MaxInt32)), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	raw := empty.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return batch{raw: raw, first: first, next: next, epoch: epoch}
}
