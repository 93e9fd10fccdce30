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

// ResumePoint says where an earlier replay ended that was writing a file of changes.
type ResumePoint struct {
	// Last is the row after which to go on.
	Last  store.Entry
	size  int64  // of the complete lines
	found string // the name of the file
}

// tailBytes is how much of the end of a file of lines is read. A late row
// (package comment) may be the last; the greatest of the last rows counts.
const tailBytes = 256 << 10

// FindResumePoint looks for the file name, and for the one that a killed process was writing
// under it. It returns nil when there is neither, or no row.
func FindResumePoint(format Format, name string) (*ResumePoint, error) {
	for _, found := range []string{name + partial, name} {
		p, err := readResumePoint(format, found)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil && found != name && format == Parquet:
			continue // it has no footer: nothing of it can be read
		case err != nil:
			return nil, fmt.Errorf("going on with %s: %w", found, err)
		case p != nil:
			return p, nil
		}
	}
	return nil, nil
}

func readResumePoint(format Format, found string) (*ResumePoint, error) {
	file, err := os.Open(found)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	p := &ResumePoint{found: found}
	if format == Parquet {
		err = p.parquetRows(file, info.Size())
	} else {
		err = p.lines(format, file, info.Size())
	}
	if err != nil || p.Last.Version == 0 {
		return nil, err
	}
	return p, nil
}

// lines reads the complete lines at the end.
func (p *ResumePoint) lines(format Format, file *os.File, size int64) error {
	from := max(0, size-tailBytes)
	tail := make([]byte, size-from)
	if _, err := file.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	complete := bytes.LastIndexByte(tail, '\n') + 1
	p.size = from + int64(complete)
	tail = tail[:complete]
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
		p.see(&e)
	}
	return nil
}

func (p *ResumePoint) see(e *store.Entry) {
	if p.Last.Version == 0 || e.Compare(&p.Last) > 0 {
		p.Last = *e
	}
}

// changesHead is the first line of a CSV file.
var changesHead = func() string {
	var head strings.Builder
	_ = Changes(CSV, &head).Close() // a builder takes everything
	return head.String()
}()

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
		if want := strings.Count(changesHead, ",") + 1; len(fields) != want {
			return fmt.Errorf("it has %d columns, must have %d", len(fields), want)
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

// parquetRows reads the last rows of a Parquet file.
func (p *ResumePoint) parquetRows(file *os.File, size int64) error {
	if _, err := parquet.OpenFile(file, size); err != nil {
		return err
	}
	reader := parquet.NewGenericReader[changeRow](file)
	defer func() { _ = reader.Close() }()
	if n := reader.NumRows(); n > batchRows {
		if err := reader.SeekToRow(n - batchRows); err != nil {
			return err
		}
	}
	return eachRow(reader, func(row *changeRow) error {
		p.see(&store.Entry{Transition: schemas.Transition{At: schemas.Millis(row.At), User: schemas.UserID(row.User), Version: schemas.Version(row.Version)}})
		return nil
	})
}

func eachRow(reader *parquet.GenericReader[changeRow], each func(*changeRow) error) error {
	rows := make([]changeRow, batchRows)
	for {
		clear(rows) // whoever keeps a row keeps its slices
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

// Continue makes a file with the rows that are there, and a writer that appends to it. A file
// of the name stays as it is until the longer one is complete.
func (p *ResumePoint) Continue(format Format, name string) (*File, Writer[store.Entry], error) {
	if format != Parquet {
		file, err := Continue(name, p.size, p.found == name)
		if err != nil {
			return nil, nil, err
		}
		w := Changes(format, file)
		if text, ok := w.(*lineWriter[store.Entry]); ok {
			text.fields.buffer = text.fields.buffer[:0] // the head is there
		}
		return file, w, nil
	}
	// Nothing can be appended to a Parquet file, and Create would overwrite one that is found
	// under the other name.
	if p.found != name {
		if err := os.Rename(p.found, name); err != nil {
			return nil, nil, err
		}
		p.found = name
	}
	file, err := Create(name)
	if err != nil {
		return nil, nil, err
	}
	w := Changes(format, file)
	if err := p.copyRows(w.(*parquetWriter[store.Entry, changeRow])); err != nil {
		return nil, nil, errors.Join(err, file.Abandon())
	}
	return file, w, nil
}

// copyRows writes the rows of the Parquet file that was found to w, so that the longer file is
// the same as one written without a break.
func (p *ResumePoint) copyRows(w *parquetWriter[store.Entry, changeRow]) error {
	file, err := os.Open(p.found)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	reader := parquet.NewGenericReader[changeRow](file)
	defer func() { _ = reader.Close() }()
	if err := eachRow(reader, w.writeRow); err != nil {
		return fmt.Errorf("going on with %s: %w", p.found, err)
	}
	return nil
}
