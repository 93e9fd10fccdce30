package output

import (
	"errors"
	"io"
	"iter"
)

// The formats, as --output names them.
const (
	TableFormat = "table"
	JSON        = "json"    // one array
	JSONL       = "jsonl"   // a row a line
	CSV         = "csv"     // RFC 4180, with a head
	Parquet     = "parquet" // one file
)

// Formats are all of them. It must not be changed.
var Formats = []string{TableFormat, JSON, JSONL, CSV, Parquet}

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

// Write writes values in a format: in JSON as they are, else by columns. An error of rows ends it and is
// returned unchanged.
func Write[R any](out io.Writer, format string, rows iter.Seq2[R, error], columns []Column[R]) error {
	w, err := NewWriter(out, format, columns)
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
type Writer[R any] struct{ formatted }

// NewWriter makes a writer, as Write has it. An error of Parquet on a terminal is ErrTerminal.
func NewWriter[R any](out io.Writer, format string, columns []Column[R]) (*Writer[R], error) {
	all := make([]column, len(columns))
	for i, c := range columns {
		all[i] = column{c.Name, c.Head, func(row any) any { return c.Value(row.(R)) }} //nolint:errcheck,forcetypeassert // of Write
	}
	var zero R
	w, err := newFormatted(out, format, all, zero)
	if err != nil {
		return nil, err
	}
	return &Writer[R]{w}, nil
}

// Write takes a row.
func (w *Writer[R]) Write(row R) error { return w.write(row) }

// Flush writes the rows that were taken, as far as the format can: Parquet is readable at its end alone.
func (w *Writer[R]) Flush() error { return w.flush() }

// Close completes what was written. It does not close the underlying writer.
func (w *Writer[R]) Close() error { return w.close() }
