package dataset

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// The formats beside those of package replay. Table is for people and has the columns that they look at; JSON is one
// array.
const (
	Table replay.Format = output.TableFormat
	JSON  replay.Format = output.JSON
)

// arrayWriter writes values as the elements of a JSON array, which are the lines of JSONL.
type arrayWriter[R any] struct {
	replay.Writer[R]
	all *output.Array
}

// Flush writes the rows that have come.
func (a *arrayWriter[R]) Flush() error { return errors.Join(a.Writer.Flush(), a.all.Flush()) }

// Close ends the array.
func (a *arrayWriter[R]) Close() error {
	if err := a.Writer.Close(); err != nil {
		return err
	}
	return a.all.Close()
}

// written is a writer of a format other than Table.
func written[R any](format replay.Format, w io.Writer, in func(replay.Format, io.Writer) replay.Writer[R]) replay.Writer[R] {
	if format == JSON {
		all := output.NewArray(w)
		return &arrayWriter[R]{in(replay.JSONL, all), all}
	}
	return in(format, w)
}

// Changes writes changes in a format to w.
func Changes(columns replay.Columns, format replay.Format, w io.Writer) replay.Writer[store.Entry] {
	if format != Table {
		return written(format, w, func(f replay.Format, w io.Writer) replay.Writer[store.Entry] {
			return replay.ChangesWith(columns, f, w)
		})
	}
	head := append([]string{"CHANGED AT (UTC)"}, userHeads(columns)...)
	return newTableWriter(w, append(head, "FROM", "TO", "CAUSE", "DEVICES", "VISIBILITY", "OVERRIDE", "EVENT"), func(e *store.Entry) []string {
		row := append([]string{output.Instant(e.At)}, userCells(columns, e.User, &e.Name)...)
		return append(row, schemas.StateWord(e.From), schemas.StateWord(e.To), schemas.CauseWord(e.Cause), kinds(e.Kinds),
			schemas.VisibilityWord(e.Visibility), chosen(e.Override), string(e.Event[:]))
	})
}

// chosen is an override in a cell.
func chosen(o schemas.Override) string {
	words := schemas.OverrideWord(o.State)
	if o.LastSeen != 0 {
		words = strings.TrimSpace(words + " last_seen=" + schemas.LastSeenWord(o.LastSeen))
	}
	return words
}

// States writes what was in force in a format to w.
func States(columns replay.Columns, format replay.Format, w io.Writer) replay.Writer[store.Entry] {
	if format != Table {
		return written(format, w, func(f replay.Format, w io.Writer) replay.Writer[store.Entry] { return replay.StatesWith(columns, f, w) })
	}
	head := append(userHeads(columns), "STATE", "SINCE (UTC)", "LAST SEEN (UTC)", "DEVICES", "VISIBILITY", "OVERRIDE")
	return newTableWriter(w, head, func(e *store.Entry) []string {
		return append(userCells(columns, e.User, &e.Name), schemas.StateWord(e.To), output.Instant(e.At), output.Instant(e.LastSeen),
			kinds(e.Kinds), schemas.VisibilityWord(e.Visibility), chosen(e.Override))
	})
}

// Sessions writes sessions in a format to w.
func Sessions(columns replay.Columns, format replay.Format, w io.Writer) replay.Writer[replay.Session] {
	if format != Table {
		return written(format, w, func(f replay.Format, w io.Writer) replay.Writer[replay.Session] {
			return replay.SessionWriter(columns, f, w)
		})
	}
	head := append(userHeads(columns), "DEVICE", "FROM (UTC)", "TO (UTC)", "LENGTH", "REMARK")
	return newTableWriter(w, head, func(s *replay.Session) []string {
		device, remark := "any", ""
		if s.Kind != 0 {
			device = schemas.KindWord(s.Kind)
		}
		switch {
		case s.Before && s.Open:
			remark = "began before, still open"
		case s.Before:
			remark = "began before"
		case s.Open:
			remark = "still open"
		}
		return append(userCells(columns, s.User, &s.Name), device, output.Instant(s.Start), output.Instant(s.End),
			output.Span(time.Duration(s.End-s.Start)*time.Millisecond), remark)
	})
}

func kinds(set schemas.KindSet) string { return strings.Join(set.States().Shown(), ", ") }

// userHeads are the heads of the columns that say who the user is, and userCells those columns of a row.
func userHeads(columns replay.Columns) []string {
	if columns == replay.Named {
		return []string{"TENANT", "NAME"}
	}
	return []string{"USER"}
}

func userCells(columns replay.Columns, id schemas.UserID, name *schemas.Name) []string {
	if columns == replay.Named {
		return []string{name.Tenant, name.Text}
	}
	return []string{id.String()}
}

// tableWriter writes values as rows of a table.
type tableWriter[R any] struct {
	*output.Table
	row func(*R) []string
}

func newTableWriter[R any](w io.Writer, head []string, row func(*R) []string) *tableWriter[R] {
	return &tableWriter[R]{output.NewTable(w, head...), row}
}

// Write takes a row.
func (t *tableWriter[R]) Write(value *R) error { return t.Row(t.row(value)...) }

// Close writes the rows that wait.
func (t *tableWriter[R]) Close() error { return t.Flush() }
