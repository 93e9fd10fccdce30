package output

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stillhere/stillhere/schemas"
)

// fitRows is how many rows a table waits for, to fit its columns to them.
const fitRows = 200

// Table writes rows in aligned columns as they come. The columns fit the first rows; a longer cell later on moves the
// rest of its line. One goroutine may use it.
type Table struct {
	out    io.Writer
	rows   [][]string // that wait for the widths; the first is the head
	widths []int      // nil until the first rows were written
}

// NewTable makes a table with these heads of columns.
func NewTable(out io.Writer, columns ...string) *Table {
	return &Table{out: out, rows: [][]string{columns}}
}

// Row adds a row, with a cell for each column. Characters of a cell that terminals obey or do not show are escaped, so
// that no two cells look alike; an empty cell is a dash.
func (t *Table) Row(cells ...string) error {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Shown(cell)
	}
	if t.rows = append(t.rows, row); t.widths == nil && len(t.rows) <= fitRows {
		return nil
	}
	return t.Flush()
}

// Flush writes the rows that have come.
func (t *Table) Flush() error {
	if t.widths == nil {
		t.widths = make([]int, len(t.rows[0]))
		for _, row := range t.rows {
			for i, cell := range row {
				t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i+1 < len(row) {
				b.WriteString(strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(cell))+2))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = t.rows[:0]
	if b.Len() == 0 {
		return nil
	}
	if _, err := io.WriteString(t.out, b.String()); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// Shown is a cell of a table, or another text of somebody, as it is printed for people; a dash for none. Escapes tell
// texts apart that would look alike: of what cannot be seen, and of the backslash.
func Shown(cell string) string {
	if cell == "" {
		return "-"
	}
	var escaped strings.Builder
	blanks := len(strings.TrimRight(cell, " ")) // and what is behind
	for i, r := range cell {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(cell[i:], string(utf8.RuneError)):
			fmt.Fprintf(&escaped, `\x%02x`, cell[i])
		case r == ' ' && (i == 0 || i >= blanks):
			escaped.WriteString(`\x20`)
		case r == '\\':
			escaped.WriteString(`\\`)
		case unseen(r):
			quoted := strconv.QuoteRuneToASCII(r)
			escaped.WriteString(quoted[1 : len(quoted)-1])
		default:
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// unseen reports whether terminals show nothing of a character, or obey it. Unicode calls most of these ignorable;
// fillers of Hangul are letters, and the blank of Braille is a symbol.
func unseen(r rune) bool {
	return !unicode.IsPrint(r) || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Grouped writes 1234567 as 1,234,567.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// Instant is an instant in a table: in UTC, to the millisecond; empty for none.
func Instant(at schemas.Millis) string {
	if at == 0 {
		return ""
	}
	return at.Time().Format("2006-01-02 15:04:05.000")
}

// Span is a length of time in a table: to the second, but for short ones.
func Span(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
