// Package importer reads last seen times that another system has recorded.
//
// They count for users without a version only: users of whom the pipeline has published nothing. So
// an import may run before the pipeline, beside it, and several times.
package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Importer is the part of a store that Run needs.
type Importer interface {
	// Import stores when users were last seen, unless it knows a version of them or a later import,
	// or remembers that they were erased.
	// users are ascending, each once. It returns how many were stored; it is one transaction.
	// The names that users carry are stored as those of changes are, but not those of erased users.
	Import(ctx context.Context, users []store.LastSeen) (stored int64, err error)
	// Erased returns the users of whom the store remembers that they were erased.
	Erased(ctx context.Context) (map[schemas.UserID]schemas.Version, error)
}

// Options say how to read a file.
type Options struct {
	// Users and Tenant say how the file names users.
	Users  identity.Users
	Tenant string
	// Now bounds the instants.
	Now time.Time
	// Bad is called for every line that is skipped, counted from 1.
	Bad func(line int64, err error)
	// Progress is called after every transaction.
	Progress func(Report)
}

// Report is what was imported.
type Report struct {
	Line   int64 // the line up to which everything is stored
	Bytes  int64 // of the file up to this line
	Users  int64 // lines read with a user and an instant
	Stored int64 // users whose last seen is new
	Erased int64 // lines of users who were erased
	Bad    int64 // lines skipped
}

const (
	// rowsAtOnce is how many lines one transaction has.
	rowsAtOnce = 20_000
	maxLine    = 4096
)

// Run reads lines "id,instant" from file into the store, in text mode "name,instant". A tab may stand
// for the comma; a first line without a digit, in text mode one whose second column is none, is a
// heading. After an error everything up to Report.Line is stored.
func Run(ctx context.Context, to Importer, file io.Reader, o Options) (r Report, err error) {
	erased, err := to.Erased(ctx)
	if err != nil {
		return r, fmt.Errorf("reading who was erased: %w", err)
	}
	in := bufio.NewReaderSize(file, maxLine)
	var rows []store.LastSeen
	line, read := int64(0), int64(0)
	flush := func() error {
		stored, err := to.Import(ctx, newestOf(rows))
		if err != nil {
			return fmt.Errorf("storing lines %d to %d: %w", r.Line+1, line, err)
		}
		rows, r.Stored, r.Line, r.Bytes = rows[:0], r.Stored+stored, line, read
		o.Progress(r)
		return nil
	}
	for {
		text, n, err := nextLine(in)
		if errors.Is(err, io.EOF) {
			return r, flush()
		}
		if err != nil {
			return r, fmt.Errorf("reading line %d: %w", line+1, err)
		}
		line, read = line+1, read+n
		if len(bytes.TrimSpace(text)) == 0 || line == 1 && o.heading(text) {
			continue
		}
		row, err := o.parseLine(text)
		if err != nil {
			r.Bad++
			o.Bad(line, err)
			continue
		}
		r.Users++
		if _, gone := erased[row.User]; gone {
			r.Erased++
			continue
		}
		if rows = append(rows, row); len(rows) == rowsAtOnce {
			if err := flush(); err != nil {
				return r, err
			}
		}
	}
}

// nextLine returns the next line without its end, or the beginning of a line that is too long, and
// how many bytes it has.
func nextLine(in *bufio.Reader) (text []byte, n int64, err error) {
	text, err = in.ReadSlice('\n')
	n = int64(len(text))
	for errors.Is(err, bufio.ErrBufferFull) {
		text = bytes.Clone(text[:maxLine])
		var more []byte
		more, err = in.ReadSlice('\n')
		n += int64(len(more))
	}
	if errors.Is(err, io.EOF) && n > 0 {
		err = nil
	}
	return bytes.TrimRight(text, "\r\n"), n, err
}

// newestOf sorts rows by user and leaves the latest instant of each. Rows with another name than the first one of their
// user are left out.
func newestOf(rows []store.LastSeen) []store.LastSeen {
	slices.SortStableFunc(rows, func(a, b store.LastSeen) int { return cmp.Compare(a.User, b.User) })
	newest := rows[:0]
	for _, r := range rows {
		n := len(newest) - 1
		switch {
		case n < 0 || newest[n].User != r.User:
			newest = append(newest, r)
		case newest[n].Name == r.Name:
			newest[n].At = max(newest[n].At, r.At)
		}
	}
	return newest
}

// earliest is the earliest instant that is accepted, so that seconds are not taken for milliseconds.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// heading reports whether the first line has no user.
func (o *Options) heading(text []byte) bool {
	if _, instant, ok := cutLast(text); ok && o.Users.Text() { // a name may have digits
		text = instant
	}
	return !bytes.ContainsAny(text, "0123456789")
}

// parseLine reads "id,instant". The instant is RFC 3339 or Unix milliseconds, and not after Now.
func (o *Options) parseLine(text []byte) (row store.LastSeen, err error) {
	if len(text) >= maxLine {
		return row, errors.New("the line is too long")
	}
	user, instant, ok := cutLast(text)
	if !ok {
		return row, fmt.Errorf("%q is not user,instant", text)
	}
	if row.User, row.Name, err = o.Users.User("user", o.Tenant, nameIn(user)); err != nil {
		return row, err
	}
	word := string(unquoted(instant))
	at, err := time.Parse(time.RFC3339Nano, word)
	if millis, bad := strconv.ParseInt(word, 10, 64); bad == nil {
		at, err = time.UnixMilli(millis), nil
	}
	switch {
	case err != nil:
		return row, fmt.Errorf("instant: %q must be RFC 3339, e.g. 2026-11-20T10:00:00Z, or Unix milliseconds", word)
	case at.Before(earliest):
		return row, fmt.Errorf("instant: %q is before 2000; Unix times must be milliseconds", word)
	case at.After(o.Now):
		return row, fmt.Errorf("instant: %q is in the future", word)
	}
	row.At = schemas.MillisOf(at)
	return row, nil
}

// cutLast cuts a line before the instant, which has neither tabs nor commas. Of a line with a tab, the
// tab separates both.
func cutLast(text []byte) (name, instant []byte, ok bool) {
	at := bytes.LastIndexByte(text, '\t')
	if at < 0 {
		at = bytes.LastIndexByte(text, ',')
	}
	if at < 0 {
		return nil, nil, false
	}
	return text[:at], text[at+1:], true
}

// nameIn is the name in a column, which may be in quotes as RFC 4180 has them. Spaces belong to it.
func nameIn(column []byte) string {
	if n := len(column); n >= 2 && column[0] == '"' && column[n-1] == '"' {
		column = bytes.ReplaceAll(column[1:n-1], []byte(`""`), []byte(`"`))
	}
	return string(column)
}

func unquoted(field []byte) []byte { return bytes.Trim(bytes.TrimSpace(field), `"`) }
