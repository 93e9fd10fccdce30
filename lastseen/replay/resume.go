package replay

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Resume continues the file of changes that an interrupted replay has left, complete or partial. It
// returns the file, a writer for further changes, and the last change in the file. If there is no
// file or no row, the file is nil. A complete file stays as it is until the longer one is complete.
func Resume(columns Columns, format Format, name string) (*File, Writer[store.Entry], store.Entry, error) {
	resume := resumeLines
	switch {
	case format == Parquet && columns == IDs:
		resume = resumeParquet(setChange, (*changeRow).key)
	case format == Parquet && columns == Named:
		resume = resumeParquet(setNamedChange, (*namedChange).key)
	case format == Parquet:
		resume = resumeParquet(setNamedChangeID, (*namedChangeID).key)
	}
	name, err := replaceable(name)
	if err != nil {
		return nil, nil, none, err
	}
	for _, found := range []string{name + partial, name} {
		file, w, last, err := resume(format, columns, found, name)
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
func newest(columns Columns, last *store.Entry, e store.Entry) {
	compare := compareNamed
	if columns == IDs {
		compare = (*store.Entry).Compare
	}
	if last.Version == 0 || compare(&e, last) > 0 {
		*last = e
	}
}

// tailBytes is how much of the end of a file of lines is read.
const tailBytes = 256 << 10

// resumeLines appends to the complete lines of a partial file, or to a copy of a complete file.
func resumeLines(format Format, columns Columns, found, name string) (*File, Writer[store.Entry], store.Entry, error) {
	in, err := os.Open(found)
	if err != nil {
		return nil, nil, none, err
	}
	defer func() { _ = in.Close() }()
	size, last, err := lastLine(format, columns, in)
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
	return file, linesAfter(format, columns, file), last, nil
}

// linesAfter is a writer of lines without a first one.
func linesAfter(format Format, columns Columns, w io.Writer) Writer[store.Entry] {
	switch columns {
	case Named:
		return newLineWriter(format, w, setNamedChange)
	case NamedAndIDs:
		return newLineWriter(format, w, setNamedChangeID)
	}
	return newLineWriter(format, w, setChange)
}

// lastLine returns the size of the complete lines of a file, and the last change in them.
func lastLine(format Format, columns Columns, file *os.File) (size int64, last store.Entry, err error) {
	if format == CSV && columns != IDs {
		return lastRecord(columns, file)
	}
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
	head := headOf(columns)
	for line := range bytes.Lines(tail) {
		if format == CSV && string(line) == strings.Join(head, ",")+"\n" {
			continue
		}
		e, err := parseKey(format, columns, line, head)
		if err != nil {
			return 0, none, noReplay(err)
		}
		newest(columns, &last, e)
	}
	return size, last, nil
}

func noReplay(err error) error {
	return fmt.Errorf("the file has a line that no replay in this format has written: %w", err)
}

// headOf are the names of the columns.
func headOf(columns Columns) []string {
	var head bytes.Buffer
	_ = ChangesWith(columns, CSV, &head).Close() // a buffer takes everything
	return strings.Split(strings.TrimSuffix(head.String(), "\n"), ",")
}

// lastRecord is lastLine of a CSV file with names, which may have line ends. It reads the file from its
// beginning: only there it is certain where a record begins.
func lastRecord(columns Columns, file *os.File) (size int64, last store.Entry, err error) {
	head := headOf(columns)
	reader := csv.NewReader(bufio.NewReaderSize(file, 1<<20))
	reader.ReuseRecord, reader.FieldsPerRecord = true, len(head)
	var end [1]byte
	for first := true; ; first = false {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return size, last, nil
		}
		var at *csv.ParseError
		if errors.As(err, &at) && isLast(file, reader.InputOffset()) {
			return size, last, nil // half a record
		}
		if err != nil {
			return 0, none, noReplay(err)
		}
		offset := reader.InputOffset()
		if _, err := file.ReadAt(end[:], offset-1); err != nil {
			return 0, none, err
		}
		if end[0] != '\n' {
			return size, last, nil
		}
		if size = offset; first && slices.Equal(fields, head) {
			continue
		}
		e, err := keyIn(fields, head, columns)
		if err != nil {
			return 0, none, noReplay(err)
		}
		newest(columns, &last, e)
	}
}

// isLast reports whether an offset is the end of a file.
func isLast(file *os.File, offset int64) bool {
	info, err := file.Stat()
	return err == nil && offset >= info.Size()
}

// parseKey reads what orders changes.
func parseKey(format Format, columns Columns, line []byte, head []string) (store.Entry, error) {
	if format == CSV {
		reader := csv.NewReader(bytes.NewReader(line))
		reader.FieldsPerRecord = len(head)
		fields, err := reader.Read()
		if err != nil {
			return none, err
		}
		return keyIn(fields, head, columns)
	}
	var row struct {
		key
		Name json.RawMessage `json:"name"` // nil: there is none
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return none, err
	}
	if named := row.Name != nil; named != (columns != IDs) {
		return none, errors.New("it has users' names and the replay has not, or the other way round")
	}
	return row.entry(columns)
}

// keyIn is parseKey of the fields of a line of CSV.
func keyIn(fields, head []string, columns Columns) (store.Entry, error) {
	values := map[string]string{}
	for i, name := range head {
		switch name {
		case "event_id", "user_id", "version", "changed_at":
			values[name] = fields[i]
		}
	}
	line, err := json.Marshal(values)
	if err != nil {
		return none, err
	}
	var row key
	if err := json.Unmarshal(line, &row); err != nil {
		return none, err
	}
	return row.entry(columns)
}

// key is what orders changes, in JSON.
type key struct {
	Event   string    `json:"event_id"`
	User    int64     `json:"user_id,string"`
	Version int64     `json:"version,string"`
	At      time.Time `json:"changed_at"`
}

func (k key) entry(columns Columns) (store.Entry, error) {
	switch {
	case k.Version < 1 || k.At.IsZero() || columns != Named && k.User < 1:
		return none, errors.New("user_id, version or changed_at is missing")
	case columns == Named && k.User != 0:
		return none, errors.New("it has user_id; was it written with --show-ids?")
	case columns != IDs && len(k.Event) != len(none.Event):
		return none, errors.New("event_id is missing")
	}
	return entryAt(k.At.UnixMilli(), k.User, k.Version, k.Event), nil
}

func entryAt(at, user, version int64, event string) store.Entry {
	e := store.Entry{Transition: schemas.Transition{At: schemas.Millis(at), User: schemas.UserID(user), Version: schemas.Version(version)}}
	copy(e.Event[:], event)
	return e
}

func (r *changeRow) key() store.Entry     { return entryAt(r.At, r.User, r.Version, r.Event) }
func (r *namedChange) key() store.Entry   { return entryAt(r.At, 0, r.Version, r.Event) }
func (r *namedChangeID) key() store.Entry { return entryAt(r.At, r.User, r.Version, r.Event) }

// resumeParquet copies the rows of the file: nothing can be appended to a Parquet file. The copy has
// the same bytes as a file written in one go. Of a partial file without a footer nothing can be read.
func resumeParquet[P any](set func(*store.Entry, *P), keyOf func(*P) store.Entry) func(Format, Columns, string, string) (*File, Writer[store.Entry], store.Entry, error) {
	return func(_ Format, columns Columns, found, name string) (*File, Writer[store.Entry], store.Entry, error) {
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
		if err := checkColumns[P](opened); err != nil {
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
		w := newParquetWriter(file, set)
		last, err := copyRows(w, opened, columns, keyOf)
		if err != nil {
			return nil, nil, none, errors.Join(err, file.Abandon())
		}
		return file, w, last, nil
	}
}

// checkColumns refuses a file with other columns than those of P, which would be lost in the copy.
func checkColumns[P any](file *parquet.File) error {
	if got, want := file.Schema().Columns(), parquet.SchemaOf(new(P)).Columns(); fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("the file has the columns %v and the replay %v", got, want)
	}
	return nil
}

// copyRows writes the rows of a file to w and returns the last change among them.
func copyRows[P any](w *parquetWriter[store.Entry, P], from *parquet.File, columns Columns, keyOf func(*P) store.Entry) (last store.Entry, err error) {
	reader := parquet.NewGenericReader[P](from)
	defer func() { err = errors.Join(err, reader.Close()) }()
	for {
		rows := make([]P, batchRows) // new ones, because the writer keeps a row's slices
		n, err := reader.Read(rows)
		for i := range rows[:n] {
			newest(columns, &last, keyOf(&rows[i]))
			if err := w.writeRow(&rows[i]); err != nil {
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
