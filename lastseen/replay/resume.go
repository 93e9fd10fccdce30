package replay

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Resume continues the file of changes that an interrupted replay has left, complete or partial. It
// returns the file, a writer for further changes, and the last change in the file. If there is no
// file or no row, the file is nil. A complete file stays as it is until the longer one is complete.
func Resume(format Format, name string) (*File, Writer[store.Entry], store.Entry, error) {
	resume := resumeLines
	if format == Parquet {
		resume = resumeParquet
	}
	for _, found := range []string{name + partial, name} {
		file, w, last, err := resume(format, found, name)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, nil, none, fmt.Errorf("resuming %s: %w", found, err)
		case file != nil:
			return file, w, last, nil
		}
	}
	return nil, nil, none, nil
}

var none store.Entry

// newest keeps the greater of two changes; the zero one is none. A late row (package comment) may be
// the last of a file.
func newest(last *store.Entry, e store.Entry) {
	if last.Version == 0 || e.Compare(last) > 0 {
		*last = e
	}
}

// tailBytes is how much of the end of a file of lines is read.
const tailBytes = 256 << 10

// resumeLines appends to the complete lines of a partial file, or to a copy of a complete file.
func resumeLines(format Format, found, name string) (*File, Writer[store.Entry], store.Entry, error) {
	in, err := os.Open(found)
	if err != nil {
		return nil, nil, none, err
	}
	defer func() { _ = in.Close() }()
	size, last, err := lastLine(format, in)
	if err != nil || last.Version == 0 {
		return nil, nil, none, err
	}
	var file *File
	if found != name {
		file, err = openPartial(name, size)
	} else if file, err = Create(name); err == nil {
		if _, err = io.Copy(file, io.NewSectionReader(in, 0, size)); err != nil {
			err = errors.Join(err, file.Abandon())
		}
	}
	if err != nil {
		return nil, nil, none, err
	}
	return file, newLineWriter(format, file, setChange), last, nil
}

// lastLine returns the size of the complete lines of a file, and the last change in them.
func lastLine(format Format, file *os.File) (size int64, last store.Entry, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, none, err
	}
	from := max(0, info.Size()-tailBytes)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, tailBytes))
	if err != nil {
		return 0, none, err
	}
	tail = tail[:bytes.LastIndexByte(tail, '\n')+1]
	size = from + int64(len(tail))
	if from > 0 {
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	var head bytes.Buffer
	_ = Changes(CSV, &head).Close() // a buffer takes everything
	for line := range bytes.Lines(tail) {
		if format == CSV && bytes.Equal(line, head.Bytes()) {
			continue
		}
		e, err := parseKey(format, line, bytes.Count(head.Bytes(), []byte(","))+1)
		if err != nil {
			return 0, none, fmt.Errorf("the file has a line that no replay in this format has written: %w", err)
		}
		newest(&last, e)
	}
	return size, last, nil
}

// parseKey reads what orders changes.
func parseKey(format Format, line []byte, columns int) (store.Entry, error) {
	var row struct {
		User    int64     `json:"user_id,string"`
		Version int64     `json:"version,string"`
		At      time.Time `json:"changed_at"`
	}
	if format == CSV {
		reader := csv.NewReader(bytes.NewReader(line))
		reader.FieldsPerRecord = columns
		fields, err := reader.Read()
		if err != nil {
			return none, err
		}
		line = fmt.Appendf(nil, `{"user_id":%q,"version":%q,"changed_at":%q}`, fields[1], fields[2], fields[3])
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return none, err
	}
	if row.User < 1 || row.Version < 1 || row.At.IsZero() {
		return none, errors.New("user_id, version or changed_at is missing")
	}
	return entryAt(row.At.UnixMilli(), row.User, row.Version), nil
}

func entryAt(at, user, version int64) store.Entry {
	return store.Entry{Transition: schemas.Transition{At: schemas.Millis(at), User: schemas.UserID(user), Version: schemas.Version(version)}}
}

// resumeParquet copies the rows of the file: nothing can be appended to a Parquet file. The copy has
// the same bytes as a file written in one go. Of a partial file without a footer nothing can be read.
func resumeParquet(format Format, found, name string) (*File, Writer[store.Entry], store.Entry, error) {
	in, err := os.Open(found)
	if err != nil {
		return nil, nil, none, err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return nil, nil, none, err
	}
	opened, err := parquet.OpenFile(in, info.Size())
	switch {
	case err != nil && found != name:
		return nil, nil, none, nil
	case err != nil || opened.NumRows() == 0:
		return nil, nil, none, err
	}
	if found != name { // Create would overwrite it
		if err := os.Rename(found, name); err != nil {
			return nil, nil, none, err
		}
	}
	file, err := Create(name)
	if err != nil {
		return nil, nil, none, err
	}
	w := newParquetWriter(file, setChange)
	last, err := copyRows(w, opened)
	if err != nil {
		return nil, nil, none, errors.Join(err, file.Abandon())
	}
	return file, w, last, nil
}

// copyRows writes the rows of a file to w and returns the last change among them.
func copyRows(w *parquetWriter[store.Entry, changeRow], from *parquet.File) (last store.Entry, err error) {
	reader := parquet.NewGenericReader[changeRow](from)
	defer func() { err = errors.Join(err, reader.Close()) }()
	for {
		rows := make([]changeRow, batchRows) // new ones, because the writer keeps a row's slices
		n, err := reader.Read(rows)
		for i := range rows[:n] {
			row := &rows[i]
			newest(&last, entryAt(row.At, row.User, row.Version))
			if err := w.writeRow(row); err != nil {
				return none, err
			}
		}
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return none, err
		}
	}
}
