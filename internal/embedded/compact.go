package embedded

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// compactDir removes superseded records, old tombstones, aborted records and markers from the compacted
// topics of a directory that nobody has open, so that a start reads what counts now and not everything
// since the first start. Offsets stay.
func compactDir(dir string, now time.Time) error {
	text, err := os.ReadFile(filepath.Join(dir, "topics.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var saved struct {
		Topics []struct {
			Name       string
			Partitions int
			Configs    map[string]*string
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err != nil {
		return err
	}
	for _, t := range saved.Topics {
		if policy := t.Configs["cleanup.policy"]; policy == nil || *policy != "compact" {
			continue
		}
		tombstones := 24 * time.Hour // Kafka's default
		if kept := t.Configs["delete.retention.ms"]; kept != nil {
			if ms, err := strconv.ParseInt(*kept, 10, 64); err == nil {
				tombstones = time.Duration(ms) * time.Millisecond
			}
		}
		for p := range t.Partitions {
			pdir := filepath.Join(dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(t.Name), p))
			if err := compactPartition(pdir, now.Add(-tombstones)); err != nil {
				return fmt.Errorf("compacting partition %d of %s: %w", p, t.Name, err)
			}
		}
	}
	return nil
}

// segment is a file with the records from base up to end.
type segment struct {
	base, end int64
	records   []*kgo.Record // all, with control records
}

// compactPartition leaves out tombstones from before an instant.
func compactPartition(dir string, tombstones time.Time) error {
	segments, err := readSegments(dir)
	if err != nil {
		return err
	}
	newest := map[string]int64{} // offset of the last committed record of a key
	committed := map[int64]bool{}
	open := map[int64][]*kgo.Record{} // by producer
	take := func(r *kgo.Record) { newest[string(r.Key)], committed[r.Offset] = r.Offset, true }
	for _, s := range segments {
		for _, r := range s.records {
			switch {
			case r.Attrs.IsControl():
				if commits(r) {
					for _, r := range open[r.ProducerID] {
						take(r)
					}
				}
				delete(open, r.ProducerID)
			case r.Attrs.IsTransactional():
				open[r.ProducerID] = append(open[r.ProducerID], r)
			default:
				take(r)
			}
		}
	}
	for _, s := range segments {
		kept := slices.DeleteFunc(slices.Clone(s.records), func(r *kgo.Record) bool {
			return !committed[r.Offset] || newest[string(r.Key)] > r.Offset || r.Value == nil && r.Timestamp.Before(tombstones)
		})
		if len(kept) == len(s.records) {
			continue
		}
		if err := s.replace(dir, kept); err != nil {
			return err
		}
	}
	return nil
}

// commits reports whether a control record ends a transaction with a commit.
func commits(r *kgo.Record) bool {
	var key kmsg.ControlRecordKey
	return key.ReadFrom(r.Key) == nil && key.Type == kmsg.ControlRecordKeyTypeCommit
}

func readSegments(dir string) (all []segment, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, found := strings.CutSuffix(e.Name(), ".dat")
		if base, err := strconv.ParseInt(name, 10, 64); found && err == nil {
			all = append(all, segment{base: base})
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return int(a.base - b.base) })
	decompressor := kgo.DefaultDecompressor()
	for i := range all {
		raw, err := os.ReadFile(all[i].file(dir))
		if err != nil {
			return nil, err
		}
		part := &kmsg.FetchResponseTopicPartition{RecordBatches: raw}
		read, end := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true}, part, decompressor, nil)
		if read.Err != nil {
			return nil, fmt.Errorf("reading %s: %w", all[i].file(dir), read.Err)
		}
		all[i].records, all[i].end = read.Records, end
	}
	return all, nil
}

func (s *segment) file(dir string) string {
	return filepath.Join(dir, strconv.FormatInt(s.base, 10)+".dat")
}

// replace writes the segment with these records only. Until the segment has its new name the old one is
// whole; an index that is missing after a kill is made again by mendTails.
func (s *segment) replace(dir string, records []*kgo.Record) error {
	file := s.file(dir)
	index := strings.TrimSuffix(file, ".dat") + ".idx"
	for _, stale := range []string{index, filepath.Join(dir, "snapshot.json")} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var text, entries []byte
	next := s.base
	put := func(records []*kgo.Record, end int64) {
		batch := batchOf(next, end, s.records[len(s.records)-1].LeaderEpoch, records)
		text, entries, next = append(text, batch...), append(entries, entryFor(batch)...), end
	}
	const most = 500 // records of a batch
	for chunk := range slices.Chunk(records, most) {
		put(chunk, chunk[len(chunk)-1].Offset+1)
	}
	if next < s.end {
		put(nil, s.end)
	}
	if err := os.WriteFile(file+".tmp", text, 0o644); err != nil {
		return errors.Join(err, os.Remove(file+".tmp"))
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return err
	}
	return os.WriteFile(index, entries, 0o644)
}

// batchOf is a record batch for the offsets from first up to end, outside of any transaction, with these
// records and nothing at the other offsets, as compaction leaves them.
func batchOf(first, end int64, epoch int32, records []*kgo.Record) []byte {
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: epoch,
		FirstOffset:          first, LastOffsetDelta: int32(min(end-first-1, math.MaxInt32)), Magic: 2,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(records)),
	}
	if len(records) > 0 {
		batch.FirstTimestamp = records[0].Timestamp.UnixMilli()
	}
	for _, r := range records {
		batch.MaxTimestamp = max(batch.MaxTimestamp, r.Timestamp.UnixMilli())
		entry := kmsg.Record{
			TimestampDelta64: r.Timestamp.UnixMilli() - batch.FirstTimestamp, OffsetDelta: int32(r.Offset - first),
			Key: r.Key, Value: r.Value,
		}
		for _, h := range r.Headers {
			entry.Headers = append(entry.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		entry.Length = int32(len(entry.AppendTo(nil)) - 1) // the zero that is there now takes one byte
		batch.Records = entry.AppendTo(batch.Records)
	}
	batch.Length = int32(batchHeaderSize + len(batch.Records) - batchLengthAt - 4)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[batchCRCAt:], crc32.Checksum(raw[batchChecksummed:], castagnoli))
	return raw
}
