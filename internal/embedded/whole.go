package embedded

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// fault is something in a data directory that is not as it was written.
type fault struct {
	file, what string
	mend       func() error // goes on with what is whole
}

// ErrCorrupt says that a data directory is damaged.
var ErrCorrupt = errors.New("is damaged")

// makeWhole looks whether everything in the data directory is as it was written, before
// anything reads it. An error is one line that names the first file that is not. With
// accept it goes on with what is whole and warns of each file; damaged files are kept
// under names that end in .damaged. What a kill has cut off in the middle is no damage.
func makeWhole(dir string, accept bool, log *slog.Logger) error {
	faults, err := findFaults(dir)
	if err != nil {
		return fmt.Errorf("looking through the data directory %s: %w", dir, err)
	}
	if len(faults) > 0 && !accept {
		more := ""
		if n := len(faults) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more faults)", n)
		}
		return fmt.Errorf("%s %w: %s%s; put a copy of the data directory in its place, or go on with what is whole with --accept-data-loss",
			faults[0].file, ErrCorrupt, faults[0].what, more)
	}
	for _, f := range faults {
		if err := f.mend(); err != nil {
			return fmt.Errorf("going on without what is damaged in %s: %w", f.file, err)
		}
		if log != nil {
			log.Warn("data is lost: going on with what is whole", "file", f.file, "fault", f.what)
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

// setAside keeps a damaged file under another name; one that is not there is fine.
func setAside(file string) error {
	if err := os.Rename(file, file+".damaged"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// A log of entries is framed: length (4), checksum (4), then version and data, of which
// both are.
const entryHead = 8

// entryAt is the entry that begins at raw[0]; nil when it is not whole.
func entryAt(raw []byte) []byte {
	if len(raw) < entryHead+2 {
		return nil
	}
	n := int64(binary.LittleEndian.Uint32(raw))
	if n < 2 || entryHead+n > int64(len(raw)) || crc32.Checksum(raw[entryHead:entryHead+n], castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil
	}
	return raw[:entryHead+n]
}

// checkEntries looks through a log of entries. An incomplete entry at the end, after
// which there is no whole one, was cut off by a kill.
func checkEntries(file string) ([]fault, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var whole bytes.Buffer
	what := ""
	for pos := 0; pos < len(raw); {
		if e := entryAt(raw[pos:]); e != nil {
			whole.Write(e)
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
		if whole.Len() < len(raw) { // else kfake would write behind it what it cannot read again
			err = os.Truncate(file, int64(whole.Len()))
		}
		return nil, err
	}
	return []fault{{file, what, func() error {
		return errors.Join(setAside(file), os.WriteFile(file, whole.Bytes(), 0o644))
	}}}, nil
}

// entryCutOff tells whether rest is the beginning of an entry that goes on beyond it,
// and not a whole one whose length is damaged.
func entryCutOff(rest []byte) bool {
	if len(rest) < entryHead+2 {
		return true
	}
	n := int64(binary.LittleEndian.Uint32(rest))
	return n >= 2 && entryHead+n > int64(len(rest)) && crc32.Checksum(rest[entryHead:], castagnoli) != binary.LittleEndian.Uint32(rest[4:])
}

// sumsFile has the checksums of the files that have none of their own: kfake's state in
// JSON. Its first line is the checksum of the rest.
const sumsFile = "stillhere.sums"

// sums are those checksums.
type sums struct {
	// Clean says that they were taken after an orderly stop, so that every file has to
	// be as it says. Otherwise kfake may have written a file anew since, which it does
	// by putting another in its place.
	Clean bool           `json:"clean"`
	Files map[string]sum `json:"files"` // by path in the data directory
}

type sum struct {
	CRC   uint32 `json:"crc"`
	Inode uint64 `json:"inode,omitempty"` // which file it was
	// Text is the file itself, where kfake cannot start without it.
	Text []byte `json:"text,omitempty"`
}

// liveState is what kfake writes while it runs, and needs.
var liveState = []string{"meta.json", "topics.json", "broker_configs.json", "acls.json", "sasl.json", "quotas.json"}

// lastState is what it writes when it stops and can do without.
var lastState = []string{"seq_windows.json", "session_state.json"}

// readSums reads the checksums; nil when there are none. damaged says that they are.
func readSums(dir string) (s *sums, damaged bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	head, rest, _ := bytes.Cut(raw, []byte("\n"))
	if string(head) != fmt.Sprintf("%08x", crc32.Checksum(rest, castagnoli)) || json.Unmarshal(rest, &s) != nil {
		return nil, true, nil
	}
	return s, false, nil
}

func writeSums(dir string, s *sums) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, sumsFile)
	if err := os.WriteFile(file+".new", append(fmt.Appendf(nil, "%08x\n", crc32.Checksum(text, castagnoli)), text...), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// checkSums looks whether kfake's state in JSON is as it was written. ends says where
// the logs of partitions, by their directories, ended at the last orderly stop.
func checkSums(dir string) (faults []fault, ends map[string]int64, err error) {
	s, damaged, err := readSums(dir)
	if err != nil {
		return nil, nil, err
	}
	ends = map[string]int64{}
	if damaged {
		file := filepath.Join(dir, sumsFile)
		faults = append(faults, fault{file, "the checksums do not fit their own", func() error { return setAside(file) }})
	}
	if s == nil {
		s = &sums{}
	}
	for _, name := range append(stoppedState(dir), liveState...) {
		file := filepath.Join(dir, name)
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		was, known := s.Files[name]
		if known && was.CRC == crc32.Checksum(raw, castagnoli) && filepath.Base(name) == "snapshot.json" {
			ends[filepath.Base(filepath.Dir(name))] = snapshotEnd(raw)
		}
		known = known && (s.Clean || was.Inode != 0 && was.Inode == inodeAt(file))
		switch {
		case known && was.CRC != crc32.Checksum(raw, castagnoli):
			faults = append(faults, fault{file, "it is not as it was written", func() error {
				err := setAside(file)
				if was.Text != nil {
					err = errors.Join(err, os.WriteFile(file, was.Text, 0o644))
				}
				return err
			}})
		case !json.Valid(raw):
			faults = append(faults, fault{file, "it is no JSON", func() error { return setAside(file) }})
		}
	}
	return faults, ends, nil
}

// stoppedState are the files that kfake writes when it stops.
func stoppedState(dir string) []string {
	names := slices.Clone(lastState)
	snapshots, _ := filepath.Glob(filepath.Join(dir, "partitions", "*", "snapshot.json")) // the pattern is good
	for _, path := range snapshots {
		if name, err := filepath.Rel(dir, path); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// recorder keeps the checksums up to date while the cluster runs.
type recorder struct {
	dir string
	// held are the files as they were recorded. As long as they are open no other file
	// can have the same inode: one with that inode and other content was changed in place.
	held map[string]*os.File
	last sums
}

// record takes the checksums anew, if a file has changed. clean says that the cluster
// has stopped in good order.
func (r *recorder) record(clean bool) error {
	next, held := sums{Clean: clean, Files: map[string]sum{}}, map[string]*os.File{}
	changed := clean
	for _, name := range liveState {
		file, err := os.Open(filepath.Join(r.dir, name))
		if err != nil {
			continue // not there yet
		}
		held[name] = file
		text, err := io.ReadAll(file)
		if err != nil {
			continue
		}
		next.Files[name] = sum{crc32.Checksum(text, castagnoli), inodeOf(file), text}
		if was, known := r.last.Files[name]; !known || was.CRC != next.Files[name].CRC || was.Inode != next.Files[name].Inode {
			changed = true
		}
	}
	if clean {
		for _, name := range stoppedState(r.dir) {
			if text, err := os.ReadFile(filepath.Join(r.dir, name)); err == nil {
				next.Files[name] = sum{CRC: crc32.Checksum(text, castagnoli)}
			}
		}
	} else { // as they were at the last orderly stop
		for name, was := range r.last.Files {
			if !slices.Contains(liveState, name) {
				next.Files[name] = was
			}
		}
	}
	var err error
	if changed || r.held == nil {
		err = writeSums(r.dir, &next)
	}
	r.release()
	r.held, r.last = held, next
	return err
}

// newRecorder begins with what was recorded last.
func newRecorder(dir string) (*recorder, error) {
	r := &recorder{dir: dir}
	last, _, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	if last == nil {
		return r, nil
	}
	r.last = *last
	for name := range last.Files {
		if filepath.Base(name) != "snapshot.json" {
			continue
		}
		// Retention has taken all of the partition, and kfake, after a kill, begins it
		// again at offset 0: where it ended once says nothing any more.
		segments, err := filepath.Glob(filepath.Join(dir, filepath.Dir(name), "*.dat"))
		if err == nil && len(segments) == 0 {
			delete(r.last.Files, name)
		}
	}
	return r, nil
}

// release closes the files that are held.
func (r *recorder) release() {
	for _, file := range r.held {
		_ = file.Close() // it was only read
	}
}

// inodeAt is the number of the file with that name.
func inodeAt(name string) uint64 {
	file, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	return inodeOf(file)
}
