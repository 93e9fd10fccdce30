package output

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

// column is a Column of rows of any type. What is generic is a layer around the formats, because the compiler would
// write all of them again for each type of rows.
type column struct {
	name, head string
	value      func(row any) any
}

// Check returns ErrTerminal if out is a terminal and the format is not for one. Commands ask before they work.
func Check(out io.Writer, format string) error {
	if file, ok := out.(*os.File); ok && format == Parquet && isatty.IsTerminal(file.Fd()) {
		return ErrTerminal
	}
	return nil
}

// formatted writes rows in a format.
type formatted struct {
	write        func(row any) error
	flush, close func() error
}

// newFormatted writes rows like zero.
func newFormatted(out io.Writer, format string, columns []column, zero any) (formatted, error) {
	nothing := func() error { return nil }
	switch format {
	case JSONL:
		lines := json.NewEncoder(out)
		return formatted{lines.Encode, nothing, nothing}, nil
	case JSON:
		all := NewArray(out)
		return formatted{all.Add, all.Flush, all.Close}, nil
	case CSV:
		w := csv.NewWriter(out)
		flush := func() error { w.Flush(); return w.Error() }
		return formatted{func(row any) error { return w.Write(cells(columns, inCSV, row)) }, flush, flush}, w.Write(heads(columns, inCSV))
	case TableFormat:
		t := NewTable(out, heads(columns, inTable)...)
		return formatted{func(row any) error { return t.Row(cells(columns, inTable, row)...) }, t.Flush, t.Flush}, nil
	case Parquet:
		if err := Check(out, format); err != nil {
			return formatted{}, err
		}
		return newParquet(out, columns, zero)
	}
	return formatted{}, fmt.Errorf("--output: %q is not written here", format)
}
