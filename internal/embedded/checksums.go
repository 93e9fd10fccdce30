package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sumsFile holds the checksums of files that have none of their own: kfake's state in JSON. Its
// first line is the checksum of the rest.
const sumsFile = "stillhere.sums"

// sums are those checksums.
type sums struct {
	// Clean means that the checksums were taken after an orderly stop, so that every file must
	// match. Otherwise kfake may have replaced a file since.
	Clean bool           `json:"clean"`
	Files map[string]sum `json:"files"` // by path in the data directory
}

type sum struct {
	CRC   uint32 `json:"crc"`
	Inode uint64 `json:"inode,omitempty"` // identifies the file
	// Text is the content of a file that kfake needs to start.
	Text []byte `json:"text,omitempty"`
}

// liveState are the files that kfake writes while it runs, and needs.
var liveState = []string{"meta.json", "topics.json", "broker_configs.json", "acls.json", "sasl.json", "quotas.json"}

// lastState are files that kfake writes when it stops, and does not need.
var lastState = []string{"seq_windows.json", "session_state.json"}

// readSums reads the checksums; nil if there are none.
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
	if err := os.WriteFile(file+".new", append(fmt.Appendf(nil, "%08x\n", crc32.Checksum(text, castagnoli)), text...),
		0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// checkSums checks kfake's state in JSON. ends are the end offsets of the partitions, by
// directory, at the last orderly stop.
func checkSums(dir string) (faults []fault, ends map[string]int64, err error) {
	s, damaged, err := readSums(dir)
	if err != nil {
		return nil, nil, err
	}
	ends = map[string]int64{}
	if damaged {
		file := filepath.Join(dir, sumsFile)
		faults = append(faults, fault{file, "the file of checksums does not match its own checksum",
			func() error { return keepDamaged(file) }})
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
			faults = append(faults, fault{file, "its content does not match its checksum", func() error {
				err := keepDamaged(file)
				if was.Text != nil {
					err = errors.Join(err, os.WriteFile(file, was.Text, 0o644))
				}
				return err
			}})
		case !json.Valid(raw):
			faults = append(faults, fault{file, "it is not JSON", func() error { return keepDamaged(file) }})
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
	// held are the recorded files. While they are open, no other file can get their inodes: a
	// file with such an inode and other content was changed in place.
	held map[string]*os.File
	last sums
}

// record writes new checksums if a file has changed. clean means that the cluster has stopped.
func (r *recorder) record(clean bool) error {
	next, held := sums{Clean: clean, Files: map[string]sum{}}, map[string]*os.File{}
	changed := clean
	for _, name := range liveState {
		file, err := os.Open(filepath.Join(r.dir, name))
		if err != nil {
			continue // kfake has not written it yet
		}
		held[name] = file
		text, err := io.ReadAll(file)
		if err != nil {
			continue
		}
		next.Files[name] = sum{crc32.Checksum(text, castagnoli), inodeOf(file), text}
		if was, known := r.last.Files[name]; !known || was.CRC != next.Files[name].CRC ||
			was.Inode != next.Files[name].Inode {
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

// newRecorder starts from the recorded checksums.
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
		// Retention has removed all of the partition, and after a kill kfake restarts it at
		// offset 0: its former end no longer counts.
		segments, err := filepath.Glob(filepath.Join(dir, filepath.Dir(name), "*.dat"))
		if err == nil && len(segments) == 0 {
			delete(r.last.Files, name)
		}
	}
	return r, nil
}

// release closes the held files.
func (r *recorder) release() {
	for _, file := range r.held {
		_ = file.Close() // it was only read
	}
}

// inodeAt is the inode of the file with that name.
func inodeAt(name string) uint64 {
	file, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	return inodeOf(file)
}
