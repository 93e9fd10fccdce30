package output

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/mattn/go-isatty"
)

// The formats, as --output names them.
const (
	TableFormat = "table"
	JSON        = "json"    // one array
	JSONL       = "jsonl"   // a row a line
	CSV         = "csv"     // RFC 4180, with a head
	Parquet     = "parquet" // one file
)

// ErrTerminal is the error of Parquet that would be written to a terminal.
var ErrTerminal = errors.New("--output parquet is not for terminals: redirect it to a file")

// Column is a column of the tables, CSV files and Parquet files of values R.
type Column[R any] struct {
	Name string // in CSV and Parquet; empty: not there
	Head string // in tables; empty: not there
	// Value is a string, number or bool, a pointer to one (nil: not known), schemas.Millis (0: none) or []string. Its
	// type does not depend on the row: Parquet asks for that of the zero row.
	Value func(R) any
}

// Write writes values in a format: in JSON as object makes them, else by columns. An error of rows ends it and is
// returned unchanged.
func Write[R any](out io.Writer, format string, rows iter.Seq2[R, error], columns []Column[R], object func(R) any) error {
	w, err := NewWriter(out, format, columns, object)
	if err != nil {
		return err
	}
	for row, err := range rows {
		if err == nil {
			err = w.Write(row)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// Writer writes rows in one format. One goroutine may use it.
type Writer[R any] struct {
	write        func(R) error
	flush, close func() error
}

// NewWriter makes a writer, as Write has it. An error of Parquet on a terminal is ErrTerminal.
func NewWriter[R any](out io.Writer, format string, columns []Column[R], object func(R) any) (*Writer[R], error) {
	nothing := func() error { return nil }
	switch format {
	case JSONL:
		lines := json.NewEncoder(out)
		return &Writer[R]{func(row R) error { return lines.Encode(object(row)) }, nothing, nothing}, nil
	case JSON:
		all := NewArray(out)
		return &Writer[R]{func(row R) error { return all.Add(object(row)) }, all.Flush, all.Close}, nil
	case CSV:
		w := csv.NewWriter(out)
		flush := func() error { w.Flush(); return w.Error() }
		return &Writer[R]{func(row R) error { return w.Write(cells(columns, inCSV, row)) }, flush, flush}, w.Write(heads(columns, inCSV))
	case TableFormat:
		t := NewTable(out, heads(columns, inTable)...)
		return &Writer[R]{func(row R) error { return t.Row(cells(columns, inTable, row)...) }, t.Flush, t.Flush}, nil
	case Parquet:
		if file, ok := out.(*os.File); ok && isatty.IsTerminal(file.Fd()) {
			return nil, ErrTerminal
		}
		return newParquet(out, columns)
	}
	return nil, fmt.Errorf("--output: %q is not written here", format)
}

// Write takes a row.
func (w *Writer[R]) Write(row R) error { return w.write(row) }

// Flush writes the rows that were taken, as far as the format can: Parquet is readable at its end alone.
func (w *Writer[R]) Flush() error { return w.flush() }

// Close completes what was written. It does not close the underlying writer.
func (w *Writer[R]) Close() error { return w.close() }
