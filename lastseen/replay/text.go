package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/schemas"
)

// flushBytes is how many bytes of lines are written at a time.
const flushBytes = 256 << 10

// MarkedText is a text in a cell of CSV. Spreadsheets take one that begins with =, +, -, @, a tab or a carriage return for a
// formula, and a user may be called so: an apostrophe before it says that it is text. One that begins with an apostrophe
// gets another one, so that whoever drops the first apostrophe of a cell has the text. Numbers and instants are not texts.
func MarkedText(text string) string {
	if text != "" && strings.IndexByte("=+-@\t\r'", text[0]) >= 0 {
		return "'" + text
	}
	return text
}

// lineWriter writes values R as lines of JSON or CSV with the columns of P. In CSV, null is empty,
// device kinds are separated by bars, and texts are MarkedText.
type lineWriter[R, P any] struct {
	w       io.Writer
	set     func(*R, *P)
	row     *P
	columns []column
	json    bool
	buffer  []byte
	clock   clock
}

// column is a column of a row.
type column struct {
	name     string
	before   string // the bytes before a value
	quote    string // around numbers and instants
	instant  bool
	optional bool // 0 is null
	field    any  // points to the row's field: *int64, *string, *document, **string, *[]string or *bool
}

func newLineWriter[R, P any](format Format, w io.Writer, set func(*R, *P)) *lineWriter[R, P] {
	l := &lineWriter[R, P]{w: w, set: set, row: new(P), json: format == JSONL, buffer: make([]byte, 0, flushBytes+4096)}
	value := reflect.ValueOf(l.row).Elem()
	for _, field := range reflect.VisibleFields(value.Type()) {
		if field.Anonymous {
			continue // its fields follow
		}
		tag := field.Tag
		name, options, _ := strings.Cut(tag.Get("parquet"), ",")
		c := column{name: name, before: ",", field: value.FieldByIndex(field.Index).Addr().Interface(), instant: strings.Contains(options, "timestamp")}
		c.optional = c.instant || strings.Contains(options, "optional")
		if l.json {
			c.before = `,"` + name + `":`
			if c.instant || tag.Get("json") == ",string" {
				c.quote = `"`
			}
		}
		if len(l.columns) == 0 {
			c.before = strings.TrimPrefix(c.before, ",")
			if l.json {
				c.before = "{" + c.before
			}
		}
		l.columns = append(l.columns, c)
	}
	return l
}

// head appends the first line of a CSV file.
func (l *lineWriter[R, P]) head() {
	for _, c := range l.columns {
		l.buffer = append(append(l.buffer, c.before...), c.name...)
	}
	l.buffer = append(l.buffer, '\n')
}

func (l *lineWriter[R, P]) Write(value *R) error {
	l.set(value, l.row)
	b := l.buffer
	for i := range l.columns {
		c := &l.columns[i]
		b = append(b, c.before...)
		switch field := c.field.(type) {
		case *string:
			b = appendText(b, *field, l.json)
		case *document:
			switch {
			case *field == "" && l.json:
				b = append(b, "null"...)
			case l.json:
				b = append(b, *field...)
			default:
				b = appendText(b, string(*field), false)
			}
		case **string:
			switch {
			case *field != nil:
				b = appendText(b, **field, l.json)
			case l.json:
				b = append(b, "null"...)
			}
		case *[]string:
			b = appendList(b, *field, l.json)
		case *bool:
			b = strconv.AppendBool(b, *field)
		case *int64:
			switch {
			case c.optional && *field == 0:
				if l.json {
					b = append(b, "null"...)
				}
			case c.instant:
				b = append(l.clock.append(append(b, c.quote...), schemas.Millis(*field)), c.quote...)
			default:
				b = append(strconv.AppendInt(append(b, c.quote...), *field, 10), c.quote...)
			}
		}
	}
	if l.json {
		b = append(b, '}')
	}
	if l.buffer = append(b, '\n'); len(l.buffer) < flushBytes {
		return nil
	}
	return l.Flush()
}

func (l *lineWriter[R, P]) Flush() error {
	if len(l.buffer) == 0 {
		return nil
	}
	_, err := l.w.Write(l.buffer)
	l.buffer = l.buffer[:0]
	if err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func (l *lineWriter[R, P]) Close() error { return l.Flush() }

// appendText appends text with the escapes of JSON, or marked and with those of RFC 4180.
func appendText(b []byte, text string, asJSON bool) []byte {
	if !asJSON {
		text = MarkedText(text)
	}
	plain := true
	for i := range len(text) {
		c := text[i]
		plain = plain && c >= ' ' && c != '"' && c != ',' && c != '\\' && c < 0x7f
	}
	switch {
	case asJSON && plain:
		return append(append(append(b, '"'), text...), '"')
	case asJSON:
		quoted, err := json.Marshal(text)
		if err != nil { // a string always can be
			panic(err)
		}
		return append(b, quoted...)
	case !plain && strings.ContainsAny(text, "\",\r\n"):
		return append(append(append(b, '"'), strings.ReplaceAll(text, `"`, `""`)...), '"')
	}
	return append(b, text...)
}

// appendList appends words that need no escapes.
func appendList(b []byte, words []string, asJSON bool) []byte {
	if !asJSON {
		for i, word := range words {
			if i > 0 {
				b = append(b, '|')
			}
			b = append(b, word...)
		}
		return b
	}
	b = append(b, '[')
	for i, word := range words {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), word...), '"')
	}
	return append(b, ']')
}

// clock appends instants as RFC 3339 in UTC with milliseconds. Neighbouring rows are mostly of one
// day, so the day's date is formatted once.
type clock struct {
	day  int64
	date []byte // 2006-01-02T; nil before the first instant
}

func (c *clock) append(dst []byte, m schemas.Millis) []byte {
	const dayMillis = 24 * 60 * 60 * 1000
	day, rest := int64(m)/dayMillis, int(int64(m)%dayMillis)
	if rest < 0 || m.Time().Year() > 9999 {
		return m.Time().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	if day != c.day || c.date == nil {
		c.day, c.date = day, m.Time().AppendFormat(c.date[:0], "2006-01-02T")
	}
	digits := func(n int) (byte, byte) { return byte('0' + n/10), byte('0' + n%10) }
	h1, h2 := digits(rest / 3_600_000)
	m1, m2 := digits(rest / 60_000 % 60)
	s1, s2 := digits(rest / 1000 % 60)
	d1, d2 := digits(rest % 1000 / 10)
	return append(append(dst, c.date...), h1, h2, ':', m1, m2, ':', s1, s2, '.', d1, d2, byte('0'+rest%10), 'Z')
}
