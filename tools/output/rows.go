package output

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

// The formats of Write, as --output names them.
const (
	TableFormat = "table"
	JSON        = "json"
	JSONL       = "jsonl"
	CSV         = "csv"
)

// Column is a column of the tables and CSV files of values R.
type Column[R any] struct {
	Name string // in CSV; empty: not there
	Head string // in tables; empty: not there
	// Value is a string, schemas.Millis or []string.
	Value func(R) any
}

// Write writes values in a format: in JSON as object makes them, in tables and CSV by columns. An error of rows ends it
// and is returned unchanged.
func Write[R any](out io.Writer, format string, rows iter.Seq2[R, error], columns []Column[R], object func(R) any) error {
	w, err := newRowWriter(out, format, columns, object)
	if err != nil {
		return err
	}
	for row, err := range rows {
		if err == nil {
			err = w.row(row)
		}
		if err != nil {
			return err
		}
	}
	return w.end()
}

// rowWriter writes rows in one format.
type rowWriter[R any] struct {
	row func(R) error
	end func() error
}

func newRowWriter[R any](out io.Writer, format string, columns []Column[R], object func(R) any) (rowWriter[R], error) {
	switch format {
	case JSONL:
		lines := json.NewEncoder(out)
		return rowWriter[R]{func(row R) error { return lines.Encode(object(row)) }, func() error { return nil }}, nil
	case JSON:
		all := []any{}
		return rowWriter[R]{
			func(row R) error { all = append(all, object(row)); return nil },
			func() error {
				encoder := json.NewEncoder(out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(all)
			},
		}, nil
	case CSV:
		w := csv.NewWriter(out)
		end := func() error { w.Flush(); return w.Error() }
		return rowWriter[R]{func(row R) error { return w.Write(cells(columns, inCSV, row)) }, end}, w.Write(heads(columns, inCSV))
	case TableFormat:
		t := NewTable(out, heads(columns, inTable)...)
		return rowWriter[R]{func(row R) error { return t.Row(cells(columns, inTable, row)...) }, t.Flush}, nil
	}
	return rowWriter[R]{}, fmt.Errorf("--output: %q is not written here", format)
}

// place is where columns are.
type place bool

const (
	inTable place = false
	inCSV   place = true
)

func heads[R any](columns []Column[R], where place) (all []string) {
	for _, c := range columns {
		if head := headOf(c, where); head != "" {
			all = append(all, head)
		}
	}
	return all
}

func headOf[R any](c Column[R], where place) string {
	if where == inCSV {
		return c.Name
	}
	return c.Head
}

func cells[R any](columns []Column[R], where place, row R) (all []string) {
	for _, c := range columns {
		if headOf(c, where) == "" {
			continue
		}
		switch v := c.Value(row).(type) {
		case schemas.Millis:
			switch {
			case where == inTable:
				all = append(all, Instant(v))
			case v == 0:
				all = append(all, "")
			default:
				all = append(all, v.String())
			}
		case []string:
			separator := ", "
			if where == inCSV {
				separator = "|"
			}
			all = append(all, strings.Join(v, separator))
		default:
			all = append(all, fmt.Sprint(v))
		}
	}
	return all
}
