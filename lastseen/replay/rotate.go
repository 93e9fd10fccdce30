package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Rotation is how changes are divided into files of a folder. Each file is complete by itself and has its name from
// then on: changes-000001.parquet and so on, in the order in which they were begun.
type Rotation struct {
	Folder string
	Every  time.Duration // complete a file so long after its first row; 0: never
	Bytes  int64         // complete a file that has so many bytes, or somewhat more; 0: never
	// ByDay puts files into a folder for each UTC day of changed_at, such as day=2026-11-23, as readers of partitioned
	// data sets expect.
	ByDay bool
	// Now is the clock [time.Now].
	Now func() time.Time
}

const (
	rotatedStem = "changes-"
	dayFolder   = "day="
	// openDays is how many days may have open files: around midnight rows of two come.
	openDays = 2
	// checkRows is after how many rows the size of a Parquet file is known: a row group is written.
	checkRows = 64 << 10
)

// Rotated writes changes to the files of a Rotation. One goroutine may use it. It must be ended by Close or Abandon.
type Rotated struct {
	Rotation
	columns Columns
	format  Format
	number  int // of the newest file
	open    []*rotatedFile
}

// rotatedFile is a file that is being written.
type rotatedFile struct {
	file  *File
	out   Writer[store.Entry]
	day   schemas.Millis // first millisecond; 0 without ByDay
	begun time.Time
	rows  int64
}

// rowGroup is a writer whose rows reach the file in groups.
type rowGroup interface{ endGroup() error }

// Rotate begins to write files. With resume it goes on after those that are there; without, there must be none. It
// returns the changes that are there and at most so much older than the newest, by event id, and the instant from which
// on they are: changes from there on that are not among them are still to be written. At 0 there is none. What was not
// completed is removed.
func Rotate(columns Columns, format Format, how Rotation, resume bool, margin time.Duration) (r *Rotated, have map[store.EventText]bool, from schemas.Millis, err error) {
	if how.Now == nil {
		how.Now = time.Now
	}
	r = &Rotated{Rotation: how, columns: columns, format: format}
	if err := os.MkdirAll(how.Folder, 0o777); err != nil {
		return nil, nil, 0, err
	}
	names, err := r.names()
	if err != nil {
		return nil, nil, 0, err
	}
	if len(names) > 0 && !resume {
		return nil, nil, 0, fmt.Errorf("%s has files of a replay, %s and others", how.Folder, names[0])
	}
	have, from, err = r.recover(names, margin)
	return r, have, from, err
}

// names are the files of the folder, in order, partial ones among them.
func (r *Rotated) names() (names []string, err error) {
	for _, pattern := range []string{rotatedStem + "*", dayFolder + "*/" + rotatedStem + "*"} {
		found, err := filepath.Glob(filepath.Join(r.Folder, pattern))
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return names, nil
}

// recover removes partial files and reads the newest complete ones.
func (r *Rotated) recover(names []string, margin time.Duration) (have map[store.EventText]bool, from schemas.Millis, err error) {
	have = map[store.EventText]bool{}
	newest, enough := schemas.Millis(0), false
	var recent []key
	for _, name := range slices.Backward(names) {
		if strings.HasSuffix(name, partial) {
			if err := os.Remove(name); err != nil {
				return nil, 0, err
			}
			continue
		}
		number, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), rotatedStem), "."+string(r.format)))
		if err != nil {
			return nil, 0, fmt.Errorf("%s is no file of a replay in the format %s", name, r.format)
		}
		r.number = max(r.number, number)
		if enough {
			continue
		}
		keys, err := readKeys(r.format, r.columns, name)
		if err != nil {
			return nil, 0, fmt.Errorf("resuming after %s: %w", name, err)
		}
		latest := schemas.Millis(0)
		for i := range keys {
			latest = max(latest, keys[i].At)
		}
		recent, newest = append(recent, keys...), max(newest, latest)
		enough = latest < newest-schemas.Millis(margin.Milliseconds())
	}
	if newest == 0 {
		return have, 0, nil
	}
	from = max(1, newest-schemas.Millis(margin.Milliseconds()))
	for i := range recent {
		if recent[i].At >= from {
			have[recent[i].Event] = true
		}
	}
	return have, from, nil
}

// Write takes a row.
func (r *Rotated) Write(e *store.Entry) error {
	if err := r.completeOld(); err != nil {
		return err
	}
	f, err := r.file(e.At)
	if err != nil {
		return err
	}
	if err := f.out.Write(e); err != nil {
		return err
	}
	f.rows++
	if r.Bytes == 0 {
		return nil
	}
	if group, ok := f.out.(rowGroup); ok && f.rows%checkRows == 0 {
		if err := group.endGroup(); err != nil {
			return err
		}
	}
	if f.file.size < r.Bytes {
		return nil
	}
	return r.complete(f)
}

// file is the open file for a row of this instant; it may be a new one.
func (r *Rotated) file(at schemas.Millis) (*rotatedFile, error) {
	day, folder := schemas.Millis(0), r.Folder
	if r.ByDay {
		start := at.Time().UTC().Truncate(24 * time.Hour)
		day, folder = schemas.MillisOf(start), filepath.Join(folder, dayFolder+start.Format(time.DateOnly))
	}
	for _, f := range r.open {
		if f.day == day {
			return f, nil
		}
	}
	if len(r.open) == openDays {
		oldest := slices.MinFunc(r.open, func(a, b *rotatedFile) int { return int(a.day - b.day) })
		if err := r.complete(oldest); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	r.number++
	file, err := Create(filepath.Join(folder, fmt.Sprintf("%s%06d.%s", rotatedStem, r.number, r.format)))
	if err != nil {
		return nil, err
	}
	f := &rotatedFile{file: file, out: ChangesWith(r.columns, r.format, file), day: day, begun: r.Now()}
	r.open = append(r.open, f)
	return f, nil
}

// completeOld completes files that have been open for long enough.
func (r *Rotated) completeOld() error {
	if r.Every == 0 {
		return nil
	}
	now := r.Now()
	for _, f := range slices.Clone(r.open) {
		if now.Sub(f.begun) >= r.Every {
			if err := r.complete(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Rotated) complete(f *rotatedFile) error {
	r.open = slices.DeleteFunc(r.open, func(other *rotatedFile) bool { return other == f })
	if err := f.out.Close(); err != nil {
		return errors.Join(err, f.file.Abandon())
	}
	return f.file.Commit()
}

// Flush completes files that have been open for long enough. Call it now and then while no rows come.
func (r *Rotated) Flush() error { return r.completeOld() }

// Close completes all files.
func (r *Rotated) Close() error {
	var faults []error
	for _, f := range slices.Clone(r.open) {
		faults = append(faults, r.complete(f))
	}
	return errors.Join(faults...)
}

// Abandon leaves the files that are not complete under their other names.
func (r *Rotated) Abandon() error {
	var faults []error
	for _, f := range r.open {
		faults = append(faults, f.file.Abandon())
	}
	r.open = nil
	return errors.Join(faults...)
}
