package replay

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Left is what an earlier replay has left of a file of changes.
type Left struct {
	// Last is the row after which to go on.
	Last store.Entry
	// Size is how many bytes of a file of lines are whole.
	Size int64
	// found is the file.
	found string
}

// tailBytes is how much of the end of a file of lines is looked at. A late row
// (package comment) may be the last; the greatest of the last rows counts.
const tailBytes = 256 << 10

// ReadLeft looks what there is of the file name: what a killed process was
// writing, or a complete file. It returns nil when there is neither, or no row.
func ReadLeft(format Format, name string) (*Left, error) {
	for _, found := range []string{name + partial, name} {
		left, err := readLeft(format, found)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil && found != name && format == Parquet:
			continue // it has no footer: nothing of it can be read
		case err != nil:
			return nil, fmt.Errorf("going on with %s: %w", found, err)
		case left != nil:
			return left, nil
		}
	}
	return nil, nil
}

func readLeft(format Format, found string) (*Left, error) {
	file, err := os.Open(found)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	left := &Left{found: found}
	if format == Parquet {
		err = left.columns(file, info.Size())
	} else {
		err = left.lines(format, file, info.Size())
	}
	if err != nil || left.Last.Version == 0 {
		return nil, err
	}
	return left, nil
}

// lines reads the whole lines at the end.
func (l *Left) lines(format Format, file *os.File, size int64) error {
	from := max(0, size-tailBytes)
	tail := make([]byte, size-from)
	if _, err := file.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	l.Size = from + int64(whole)
	tail = tail[:whole]
	if from > 0 {
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	for line := range bytes.Lines(tail) {
		if format == CSV && bytes.Equal(line, []byte(changesHead)) {
			continue
		}
		var e store.Entry
		if err := parseKey(format, line, &e); err != nil {
			return fmt.Errorf("it has a line that is none of a replay in this format: %w", err)
		}
		l.see(&e)
	}
	return nil
}

func (l *Left) see(e *store.Entry) {
	if l.Last.Version == 0 || e.Compare(&l.Last) > 0 {
		l.Last = *e
	}
}

// parseKey reads what orders rows.
func parseKey(format Format, line []byte, e *store.Entry) error {
	var row struct {
		User    string `json:"user_id"`
		Version string `json:"version"`
		At      string `json:"changed_at"`
	}
	if format == CSV {
		fields, err := csv.NewReader(bytes.NewReader(line)).Read()
		if err != nil {
			return err
		}
		if len(fields) != strings.Count(changesHead, ",")+1 {
			return fmt.Errorf("%d columns", len(fields))
		}
		row.User, row.Version, row.At = fields[1], fields[2], fields[3]
	} else if err := json.Unmarshal(line, &row); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, row.At)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(row.User+" "+row.Version, (*int64)(&e.User), (*int64)(&e.Version)); err != nil {
		return err
	}
	e.At = schemas.MillisOf(at)
	return nil
}

// columns reads the last rows of a Parquet file.
func (l *Left) columns(file *os.File, size int64) error {
	if _, err := parquet.OpenFile(file, size); err != nil {
		return err
	}
	reader := parquet.NewGenericReader[changeRow](file)
	defer func() { _ = reader.Close() }()
	if n := reader.NumRows(); n > columnsRows {
		if err := reader.SeekToRow(n - columnsRows); err != nil {
			return err
		}
	}
	return eachRow(reader, func(row *changeRow) error {
		l.see(&store.Entry{Transition: schemas.Transition{At: schemas.Millis(row.At), User: schemas.UserID(row.User), Version: schemas.Version(row.Version)}})
		return nil
	})
}

func eachRow(reader *parquet.GenericReader[changeRow], each func(*changeRow) error) error {
	rows := make([]changeRow, columnsRows)
	for {
		n, err := reader.Read(rows)
		for i := range rows[:n] {
			if err := each(&rows[i]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Continue makes a file with what is left, and a writer that goes on with it. A
// file of the name stays as it is until the longer one is complete.
func (l *Left) Continue(format Format, name string) (*File, Writer[store.Entry], error) {
	if format != Parquet {
		file, err := Continue(name, l.Size, l.found == name)
		if err != nil {
			return nil, nil, err
		}
		w := Changes(format, file)
		if text, ok := w.(*lines[store.Entry]); ok {
			text.buffer = text.buffer[:0] // the head is there
		}
		return file, w, nil
	}
	// A Parquet file cannot be written on, and Create would overwrite one that is
	// found under the other name.
	if l.found != name {
		if err := os.Rename(l.found, name); err != nil {
			return nil, nil, err
		}
		l.found = name
	}
	file, err := Create(name)
	if err != nil {
		return nil, nil, err
	}
	w := Changes(format, file)
	if err := l.copyColumns(w); err != nil {
		return nil, nil, errors.Join(err, file.Abandon())
	}
	return file, w, nil
}

// copyColumns writes the rows of the Parquet file that was found to w, so that the
// longer file is the same as one written without a break.
func (l *Left) copyColumns(w Writer[store.Entry]) error {
	file, err := os.Open(l.found)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	reader := parquet.NewGenericReader[changeRow](file)
	defer func() { _ = reader.Close() }()
	var e store.Entry
	err = eachRow(reader, func(row *changeRow) error {
		if err := row.entry(&e); err != nil {
			return err
		}
		return w.Write(&e)
	})
	if err != nil {
		return fmt.Errorf("going on with %s: %w", l.found, err)
	}
	return nil
}

// entry makes the change of a row.
func (row *changeRow) entry(e *store.Entry) error {
	*e = store.Entry{Transition: schemas.Transition{
		User: schemas.UserID(row.User), Version: schemas.Version(row.Version), At: schemas.Millis(row.At), Device: schemas.DeviceID(row.Device),
		LastSeen: schemas.Millis(row.LastSeen), LastActive: schemas.Millis(row.LastActive), Policy: strings.Clone(row.Policy), LeftOut: uint32(row.LeftOut),
	}}
	copy(e.Event[:], row.Event)
	for _, word := range row.Kinds {
		kind, err := schemas.ParseKind("device_kinds", word)
		if err != nil {
			return err
		}
		e.Kinds = e.Kinds.With(kind)
	}
	if err := store.ParseWords(&e.Transition, row.From, row.To, row.Cause); err != nil {
		return err
	}
	var err error
	e.Visibility, err = schemas.ParseVisibility("visibility", row.Visibility)
	return err
}
